package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/reconcile"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/resourceid"
)

// The tests of this package use these words. A front is a real server on a real store behind a listener, with
// a running reconciler. Its clock is the real one, and ahead sets it forward. credential and org add records
// without a request. namespace creates a namespace that no host opens. host registers a host or gateway, and
// join exchanges its credential for a service token. cloud returns the Go client; send sends any request,
// also a wrong one, and returns an answer, which is the unparsed response. The log is kept, so that tests can
// search it for secrets.

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// waitLimit bounds how long a test waits for a condition, because disks stall.
const waitLimit = time.Minute

// front is a real server on a real store behind a real listener, with a running
// reconciler.
type front struct {
	t        testing.TB
	server   *Server
	store    *store.Store
	url      string
	operator string       // an operator's key
	ahead    atomic.Int64 // of the clock
	log      *logBuffer
	joined   sync.Map // credential -> wire.JoinRequest, of the last join of a host
}

// logBuffer keeps the log's text, so that a test can search it for secrets.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (f *front) now() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }

func startFront(t testing.TB) *front {
	t.Helper()
	ctx := context.Background()
	f := &front{t: t, log: &logBuffer{}}
	logger := slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if f.store, err = store.Open(store.Config{Dir: t.TempDir(), NodeID: "n1", Now: f.now, Rand: rand.Reader, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.store.Close(ctx); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	if err := f.store.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	signer, err := OpenSigner(ctx, SignerConfig{Store: f.store, Now: f.now, Rand: rand.Reader, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := OpenAuthority(ctx, AuthorityConfig{Store: f.store, Now: f.now, Rand: rand.Reader, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	observations := reconcile.NewObservations(f.now, reconcile.HostGrace)
	reconciler := reconcile.New(reconcile.Config{Store: f.store, Observations: observations, Now: f.now, Logger: logger})
	loop, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { reconciler.Run(loop) })
	work.Go(func() { authority.Run(loop, func() {}) })
	t.Cleanup(func() { stop(); work.Wait() })
	f.server, err = New(Config{
		Store: f.store, Observations: observations, Reconciler: reconciler, Signer: signer, Authority: authority,
		// The limit is long, because these tests do not measure the disk.
		Endpoint: "http://gateway.test", Version: "test", ProposeTimeout: waitLimit, Now: f.now, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(f.server)
	t.Cleanup(func() { f.server.Drain(); listener.Close(); f.server.Close(ctx) })
	f.url = listener.URL
	f.operator = f.credential(keyring.CloudOperator, "", tenancy.CloudOperator)
	return f
}

// credential stores a credential and returns its text.
func (f *front) credential(kind keyring.Kind, owner string, roles ...tenancy.Role) string {
	f.t.Helper()
	return f.keep(tenancy.Key{Name: "test", Roles: roles}, kind, owner)
}

func (f *front) keep(k tenancy.Key, kind keyring.Kind, owner string) string {
	f.t.Helper()
	text, id, hash, err := keyring.New(rand.Reader, kind)
	if err != nil {
		f.t.Fatal(err)
	}
	k.ID, k.Hash = id, hash
	f.propose(&store.CreateCredential{Meta: &store.Meta{Principal: "test"}, Credential: toCredential(k, kind, owner)})
	return text
}

func (f *front) propose(o store.Op) {
	f.t.Helper()
	if _, err := store.Propose[any](f.t.Context(), f.store, o); err != nil {
		f.t.Fatal(err)
	}
}

// revoke ends a credential.
func (f *front) revoke(text string) {
	f.t.Helper()
	_, id, _ := keyring.Parse(text)
	f.propose(&store.RevokeCredential{Meta: &store.Meta{Principal: "test"}, Id: id})
}

// org creates an organisation and returns its id.
func (f *front) org(name string) string {
	f.t.Helper()
	org, err := f.cloud(f.operator).CreateOrg(f.t.Context(), api.CreateOrgRequest{Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	return org.ID
}

// host registers a host or gateway and returns its id and credential.
func (f *front) host(name string, kind keyring.Kind) (id, credential string) {
	f.t.Helper()
	made, err := f.cloud(f.operator).CreateHost(f.t.Context(), api.CreateHostRequest{Name: name, Kind: kindWords[kind]})
	if err != nil {
		f.t.Fatal(err)
	}
	return made.ID, made.Credential
}

// join exchanges a fleet credential for a service token. Each host is one process, on a store of its own.
func (f *front) join(credential, address string) string {
	f.t.Helper()
	join := wire.JoinRequest{Address: address, Version: "v1"}
	if kind, _, _ := keyring.Parse(credential); kind == keyring.Host {
		last, _ := f.joined.LoadOrStore(credential, wire.JoinRequest{Store: newStoreID(f.t)})
		join.Store, join.Run = last.(wire.JoinRequest).Store, last.(wire.JoinRequest).Run
	}
	answer := f.joinAs(credential, join)
	join.Run = answer.Run
	f.joined.Store(credential, join)
	return answer.Token
}

func (f *front) joinAs(credential string, join wire.JoinRequest) (answer wire.JoinAnswer) {
	f.t.Helper()
	join.Format = wire.DocFormat
	body, err := json.Marshal(join)
	if err != nil {
		f.t.Fatal(err)
	}
	a := f.send("POST", wire.JoinPath, credential, string(body))
	if a.status != 200 || json.Unmarshal(a.body, &answer) != nil || answer.Token == "" {
		f.t.Fatalf("join: %d %s", a.status, a.body)
	}
	return answer
}

func newStoreID(t testing.TB) string {
	t.Helper()
	id, err := resourceid.New(rand.Reader, wire.StorePrefix, 1)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// namespace creates a namespace that no host opens, and returns its id.
func (f *front) namespace(org, name string) string {
	f.t.Helper()
	op, err := f.cloud(f.operator).CreateNamespace(f.t.Context(), org, api.CreateNamespaceRequest{Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	return op.Resource.ID
}

// cloud returns a client that does not retry refused requests.
func (f *front) cloud(key string) *client.Cloud {
	f.t.Helper()
	c, err := client.NewCloud(f.url, key, client.WithRetries(0), client.WithTimeout(waitLimit))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Close)
	return c
}

// answer is an unparsed HTTP response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem is the body of an error response.
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

// send sends a request. Header lines are "Name: value".
func (f *front) send(method, path, key, body string, header ...string) answer {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: text}
}
