package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// node is a real node in this process, behind a real listener.
type node struct {
	t      testing.TB
	server *Server
	cell   *cell.Cell
	url    string
	dir    string // the host's data directory
	admin  string // the text of a key with all rights; "" with --dev
	stop   func() // may be called before the test ends
}

// startNode opens a node on an empty store. change may alter its configuration.
func startNode(t testing.TB, change func(*Config)) *node {
	t.Helper()
	return startNodeOn(t, host.Config{}, change)
}

// startNodeOn starts a node with a host configuration.
func startNodeOn(t testing.TB, of host.Config, change func(*Config)) *node {
	t.Helper()
	return startNodeIn(t, t.TempDir(), of, change)
}

// startNodeIn starts a node with a host configuration and a data directory.
func startNodeIn(t testing.TB, dir string, of host.Config, change func(*Config)) *node {
	t.Helper()
	ctx := context.Background()
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	if of.Logger == nil {
		of.Logger = logger
	}
	of.DataDir, of.NodeID = dir, "n1"
	h, err := host.Open(of)
	if err != nil {
		t.Fatal(err)
	}
	closeHost := sync.OnceFunc(func() {
		if err := h.Close(ctx); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})
	t.Cleanup(closeHost)
	if err := add(ctx, h, tenancy.Default); err != nil {
		t.Fatal(err)
	}
	c, err := home(h, tenancy.Default)
	if err != nil {
		t.Fatal(err)
	}
	// A busy disk must not fail these tests.
	cfg := Config{Host: h, Namespace: tenancy.Default, Version: "test", ProposeTimeout: time.Minute, ReadWait: time.Minute, FreshWait: time.Minute, EventHeartbeat: testHeartbeat, Logger: logger}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, server: s, cell: c, dir: dir}
	if !cfg.Dev {
		n.admin = n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}})
	}
	front := httptest.NewServer(s)
	closeServer := sync.OnceFunc(func() { s.Drain(); front.Close(); s.Close(ctx) })
	t.Cleanup(closeServer)
	n.url, n.stop = front.URL, func() { closeServer(); closeHost() }
	return n
}

// add opens a namespace and waits until it is ready.
func add(ctx context.Context, h *host.Host, ns tenancy.NamespaceID) error {
	return errors.Join(h.Add(ctx, ns, host.Spec{}), h.Ready(ctx, ns))
}

// home returns the cell of a namespace's first shard.
func home(h *host.Host, ns tenancy.NamespaceID) (*cell.Cell, error) {
	cells, err := h.Cells(ns)
	if err != nil {
		return nil, err
	}
	return cells[0], nil
}

// key stores a key and returns its text.
func (n *node) key(k tenancy.Key) string {
	n.t.Helper()
	text, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		n.t.Fatal(err)
	}
	k.ID, k.Hash, k.Enabled = id, hash, true
	propose := &op.CreateKey{Meta: &op.Meta{Principal: "test"}, Key: convert.ToKeyRecord(k)}
	if _, _, err := cell.Propose[*op.CreateKeyResult](context.Background(), n.cell, propose); err != nil {
		n.t.Fatal(err)
	}
	return text
}

// client returns a client of the node that does not retry.
func (n *node) client(key string) *client.Client {
	n.t.Helper()
	c, err := client.New(n.url, key, client.WithRetries(0))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close)
	return c
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem is the body of an error answer.
type problem struct {
	Error   string         `json:"error"`
	Code    api.Code       `json:"code"`
	Details map[string]any `json:"details"`
}

func (a answer) problem(t testing.TB) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return p
}

// wantRetry checks an error answer that tells the client to try again in a second or later.
func (a answer) wantRetry(t testing.TB, code api.Code) {
	t.Helper()
	equal(t, "status", a.status, http.StatusTooManyRequests)
	equal(t, "code", a.problem(t).Code, code)
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q: %s", a.header.Get("Retry-After"), a.body)
	}
}

// send makes a request. Header lines are "Name: value".
func (n *node) send(method, path, key, body string, header ...string) answer {
	n.t.Helper()
	req, err := http.NewRequest(method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: got}
}

// These keys of the store change without a request that changes anything. Every log entry rewrites the head,
// refusals are written to the audit log, and the leader adds the shipped prices at any time after its start.
var (
	headKey     = []byte{0x01}
	auditPrefix = []byte{0x41}
	pricePrefix = []byte{0x16, byte(state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE)}
)

// dump returns the store except its position, its audit log and the shipped prices.
func (n *node) dump() []state.KV {
	n.t.Helper()
	snapshot := n.cell.State().Snapshot()
	defer snapshot.Close()
	var all []state.KV
	for kv, err := range snapshot.All() {
		if err != nil {
			n.t.Fatal(err)
		}
		if !bytes.Equal(kv.Key, headKey) && !bytes.HasPrefix(kv.Key, auditPrefix) && !bytes.HasPrefix(kv.Key, pricePrefix) {
			all = append(all, kv)
		}
	}
	return all
}

// same fails the test unless the store is unchanged.
func (n *node) same(before []state.KV) {
	n.t.Helper()
	after := n.dump()
	if len(before) != len(after) {
		n.t.Errorf("the store has %d records, had %d", len(after), len(before))
		return
	}
	for i := range before {
		if !bytes.Equal(before[i].Key, after[i].Key) || !bytes.Equal(before[i].Value, after[i].Value) {
			n.t.Errorf("record %x has changed", before[i].Key)
		}
	}
}

// inFlight returns the number of running requests.
func (n *node) inFlight() int {
	n.t.Helper()
	w := httptest.NewRecorder()
	n.server.cfg.Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	for line := range strings.Lines(w.Body.String()) {
		if text, ok := strings.CutPrefix(line, telemetry.HTTPInFlight.Name+" "); ok {
			count, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				n.t.Fatal(err)
			}
			return count
		}
	}
	n.t.Fatalf("no metric %s", telemetry.HTTPInFlight.Name)
	return 0
}

// equal compares a value with the one that a test wants. A failure lists the fields that differ, and the test goes on.
func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if difference := cmp.Diff(want, got, protocmp.Transform()); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}

// wantFields compares the fields that set assigns with those of a value.
func wantFields[T any](t testing.TB, what string, got T, set func(want *T)) {
	t.Helper()
	want := got
	set(&want)
	equal(t, what, got, want)
}

// present fails the test if a value is the zero value of its type.
func present[T comparable](t testing.TB, what string, got T) {
	t.Helper()
	var zero T
	if got == zero {
		t.Errorf("%s is missing", what)
	}
}

// parked waits until the given number of requests, all polls, are running.
func (n *node) parked(count int) {
	n.t.Helper()
	eventually(n.t, "the polls wait", func() bool { return n.inFlight() == count })
}

// one enqueues a job and leases it.
func (n *node) one(c *client.Client, queue string) *api.FetchedJob {
	n.t.Helper()
	ctx := context.Background()
	if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: queue}); err != nil {
		n.t.Fatal(err)
	}
	f, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{queue}, WorkerID: "w1"})
	if err != nil || f == nil {
		n.t.Fatalf("fetch from %s: %v, %v", queue, f, err)
	}
	return f
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(time.Millisecond); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func ptr[T any](v T) *T { return &v }
