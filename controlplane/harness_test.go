package controlplane

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/resourceid"
)

// The tests of this package use these words. A plane is a real control plane behind a listener whose address
// stays while the test closes the plane and opens it again (restart). Its clock is the real one, set forward
// by the test. org and namespace create what a test needs and wait until it is ready. A host speaks the fleet
// protocol with the plane and has no data plane: it obeys its documents and reports at once; be makes it deaf
// to documents or sick with an error. until polls a condition that has no event.

// waitLimit bounds how long a test waits for a condition, because disks stall.
const waitLimit = time.Minute

// clock is the real clock, which a test can set forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// until waits until a condition is true.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	over := time.After(waitLimit)
	for !f() {
		select {
		case <-over:
			t.Fatalf("this never came true: %s", what)
		case <-tick.C:
		}
	}
}

// plane is a real control plane behind a real listener. The address stays while a test closes the plane and
// opens it again.
type plane struct {
	*Plane
	t        testing.TB
	clock    clock
	cfg      Config
	front    *httptest.Server
	operator string // an operator's key
	urls     string // of all processes of the control plane; "" = the front's

	serving sync.RWMutex // held for reading by each request, for writing without a plane
	down    atomic.Bool
}

// startPlane opens a control plane on an empty directory. change may change its configuration.
func startPlane(t testing.TB, change func(*Config)) *plane {
	t.Helper()
	p := &plane{t: t}
	p.cfg = Config{
		DataDir: t.TempDir(), Endpoint: "http://gateway.test", Version: "test",
		// The limit is long, because these tests do not measure the disk.
		ProposeTimeout: waitLimit, Now: p.clock.Now, Logger: quiet(),
	}
	if change != nil {
		change(&p.cfg)
	}
	p.operator = newCredential(t, keyring.CloudOperator)
	p.open()
	p.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.serving.RLock()
		defer p.serving.RUnlock()
		if p.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		p.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		if !p.down.Load() {
			p.close()
		}
		p.front.Close()
	})
	return p
}

func (p *plane) open() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	var err error
	if p.Plane, err = Open(ctx, p.cfg); err != nil {
		p.t.Fatal(err)
	}
	if err := p.EnsureOperator(ctx, p.operator); err != nil {
		p.t.Fatal(err)
	}
}

// close closes the plane. Its listener refuses requests afterwards.
func (p *plane) close() {
	p.t.Helper()
	p.down.Store(true)
	p.Drain()
	p.serving.Lock()
	defer p.serving.Unlock()
	if err := p.Close(context.Background()); err != nil {
		p.t.Errorf("close the control plane: %v", err)
	}
}

// restart closes the plane and opens it again.
func (p *plane) restart() {
	p.t.Helper()
	p.close()
	p.serving.Lock()
	defer p.serving.Unlock()
	p.open()
	p.down.Store(false)
}

// cloud returns a client with a key.
func (p *plane) cloud(key string) *client.Cloud {
	p.t.Helper()
	c, err := client.NewCloud(p.front.URL, key, client.WithTimeout(waitLimit))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// org creates an organisation and a token of its admin.
func (p *plane) org(name string) (api.Org, string) {
	p.t.Helper()
	ctx, ops := p.t.Context(), p.cloud(p.operator)
	org, err := ops.CreateOrg(ctx, api.CreateOrgRequest{Name: name})
	if err != nil {
		p.t.Fatal(err)
	}
	made, err := ops.CreateToken(ctx, org.ID, api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "admin", Roles: []string{"admin"}}})
	if err != nil {
		p.t.Fatal(err)
	}
	return org, made.APIKey
}

// namespace creates a namespace and waits until it is ready.
func (p *plane) namespace(c *client.Cloud, org, name string) api.Namespace {
	p.t.Helper()
	op, err := c.CreateNamespace(p.t.Context(), org, api.CreateNamespaceRequest{Name: name})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := c.WaitOperation(p.t.Context(), op.ID); err != nil {
		p.t.Fatal(err)
	}
	ns, err := c.Namespace(p.t.Context(), op.Resource.ID)
	if err != nil {
		p.t.Fatal(err)
	}
	return ns
}

// host is a host without a data plane: it speaks the fleet protocol and reports on each namespace as a real
// host would.
type host struct {
	t      testing.TB
	member *wire.Member
	store  string

	credential string

	mu    sync.Mutex
	docs  map[string]wire.Doc   // the newest placements, by namespace
	keys  map[string][]wire.Key // of the newest documents of the other kinds, by kind and subject
	sick  string                // the reason why it opens nothing; "" = it opens namespaces
	deaf  bool                  // it ignores its documents
	room  *wire.Capacity        // nil = it reports none
	owes  *billing.Frame        // the last usage of a namespace, until the control plane has answered it
	owed  string                // the reason why owes is not delivered
	wrong []string              // errors: documents that it must not receive
	// histories are the incarnations of the groups that it has founded, by namespace.
	histories map[string][]entry.Incarnation

	kick     chan struct{} // holds one: there is something to report
	reported atomic.Bool   // the control plane has taken a report
}

// startHost registers a host with the plane and runs it until the test ends.
func (p *plane) startHost(name string, kind keyring.Kind) *host {
	p.t.Helper()
	credential := newCredential(p.t, kind)
	if err := p.EnsureHost(p.t.Context(), name, kind, "", credential); err != nil {
		p.t.Fatal(err)
	}
	return p.runHost(name, kind, credential)
}

// runHost runs a registered host, with a new store, until the test ends.
func (p *plane) runHost(name string, kind keyring.Kind, credential string) *host {
	p.t.Helper()
	join := wire.JoinRequest{Address: "http://" + name + ".test", Version: "v1"}
	if kind == keyring.Gateway {
		join.Address = ""
	} else {
		join.Store = newStoreID(p.t)
	}
	m, err := wire.NewMember(wire.MemberConfig{ControlPlane: cmp.Or(p.urls, p.front.URL), Credential: credential, Join: join, Now: p.clock.Now, Logger: quiet()})
	if err != nil {
		p.t.Fatal(err)
	}
	h := &host{t: p.t, member: m, credential: credential, store: join.Store, docs: map[string]wire.Doc{}, keys: map[string][]wire.Key{}, histories: map[string][]entry.Incarnation{}, kick: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	p.t.Cleanup(func() {
		cancel()
		work.Wait()
		for _, what := range h.wrong {
			p.t.Error(what)
		}
	})
	work.Go(func() {
		if err := m.Run(ctx, wire.Follow{OnDoc: func(d wire.Doc) error { h.take(d, kind); return nil }}); err != nil && !errors.As(err, new(*wire.SupersededError)) {
			p.t.Errorf("run member %s: %v", name, err)
		}
	})
	if kind == keyring.Host {
		work.Go(func() { h.reports(ctx) })
	}
	until(p.t, name+" follows", m.Connected)
	return h
}

func newStoreID(t testing.TB) string {
	t.Helper()
	id, err := resourceid.New(rand.Reader, wire.StorePrefix, 1)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (h *host) take(d wire.Doc, kind keyring.Kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.Kind != wire.KindPlacement {
		h.keys[d.Kind+" "+cmp.Or(d.Namespace, d.Org)] = d.Keys
		return
	}
	_, keys := h.keys[wire.KindKeys+" "+d.Namespace]
	_, known := h.docs[d.Namespace]
	if kind == keyring.Host && h.memberOf(d) == nil && keys && !known {
		h.wrong = append(h.wrong, "host "+h.member.ID()+" was sent the keys of "+d.Namespace)
	}
	h.docs[d.Namespace] = d
	if d.Desired != wire.Open {
		delete(h.keys, wire.KindKeys+" "+d.Namespace)
	}
	h.nudge()
}

func (h *host) nudge() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// be sets the behaviour of the host.
func (h *host) be(deaf bool, sick string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf, h.sick = deaf, sick
	h.nudge()
}

// reports sends reports until ctx ends: at once after a change, and at intervals.
func (h *host) reports(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	reporter := wire.NewReporter(time.Now, func(r wire.Report) (wire.ReportAnswer, error) { return h.member.Report(ctx, r) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-h.kick:
		}
		// A plane that is closed, or has not accepted the host yet, is asked again.
		h.settle(ctx)
		if reporter.Report(h.report()) == nil {
			h.reported.Store(true)
		}
	}
}

// settle delivers the last usage of namespaces that are being deleted, as the usage sink of a host does.
func (h *host) settle(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owes == nil || h.docs[h.owes.Namespace].Desired != wire.Absent {
		return
	}
	_, err := h.member.SendUsage(ctx, *h.owes)
	if code := api.CodeOf(err); err != nil && code.Status() < http.StatusInternalServerError && !code.Retryable() {
		_, err = h.member.SetUsageAside(ctx, *h.owes)
	}
	if err == nil {
		h.owes = nil
		return
	}
	h.owed = err.Error()
}

func (h *host) report() wire.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := wire.Report{Number: h.member.Number(), Capacity: h.room}
	for _, d := range h.docs {
		c := wire.CellReport{Namespace: d.Namespace, Generation: d.Generation}
		switch {
		case h.deaf || h.memberOf(d) == nil:
			continue
		case h.sick != "":
			c.State, c.Error = wire.Failed, h.sick
		case d.Desired == wire.Absent && h.owes != nil && h.owes.Namespace == d.Namespace:
			c.State, c.Error = wire.Failed, "its usage is not delivered: "+h.owed
		case d.Desired == wire.Absent:
			c.State = wire.Gone
			delete(h.histories, d.Namespace)
		default:
			c.State, c.Error, c.Incarnations = h.open(d)
			for range c.Incarnations { // the group of each shard follows the list at once
				c.Groups = append(c.Groups, wire.GroupReport{Role: wire.Leading, Epoch: d.Epoch, Generation: d.Generation, Configuration: 1, Voters: []string{h.store}})
			}
		}
		r.Cells = append(r.Cells, c)
	}
	return r
}

// memberOf returns the member of a document that is on the host, or nil.
func (h *host) memberOf(d wire.Doc) *wire.GroupMember {
	at := slices.IndexFunc(d.Members, func(m wire.GroupMember) bool { return m.Host == h.member.ID() })
	if at < 0 {
		return nil
	}
	return &d.Members[at]
}

// open founds a namespace if its document lets it, and returns the report of it. The caller holds mu.
func (h *host) open(d wire.Doc) (state, fault string, incarnations []entry.Incarnation) {
	own, founded := h.histories[d.Namespace]
	on := h.memberOf(d)
	switch {
	case on.Store != h.store:
		return wire.Waiting, "its data is on " + on.Store, nil
	case !founded && on.Role != wire.Found:
		return wire.Failed, "its data is missing", nil
	case !founded:
		own = d.Incarnations
		h.histories[d.Namespace] = own
	case len(d.Incarnations) > 0 && !slices.Equal(own, d.Incarnations):
		return wire.Failed, "its history is another", nil
	}
	return wire.Opened, "", own
}

// doc returns the newest document of a namespace.
func (h *host) doc(namespace string) (wire.Doc, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.docs[namespace]
	return d, ok
}

// shown returns the keys in the newest document of a kind.
func (h *host) shown(kind, id string) []wire.Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keys[kind+" "+id]
}

// has reports whether the newest keys of a namespace or tokens of its organisation hold a key.
func (h *host) has(namespace, key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Concat(h.keys[wire.KindKeys+" "+namespace], h.keys[wire.KindTokens+" "+h.docs[namespace].Org])
	return slices.ContainsFunc(all, func(k wire.Key) bool { return k.ID == key })
}

func newCredential(t testing.TB, kind keyring.Kind) string {
	t.Helper()
	text, _, _, err := keyring.New(rand.Reader, kind)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
