package reconcile

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

var seeds = flag.Uint64("sim.seeds", 12, "histories that TestFoundingSimulation plays")

// TestFoundingSimulation plays random histories of the reconciler on a real store with three modelled hosts. Reports are
// lost or late, and so are documents and the steps of a second reconciler. Hosts crash between any two effects, join with
// an empty store and go back to a lost one. Each incarnation has at most one founder, a store whose founding is recorded
// keeps the data until the namespace is deleted, and every operation ends once the faults do.
func TestFoundingSimulation(t *testing.T) {
	t.Parallel()
	var replaced atomic.Int64
	t.Cleanup(func() {
		if replaced.Load() == 0 {
			t.Error("the histories are poor: no founder was replaced")
		}
	})
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newSimWorld(t, seed)
			for range 150 {
				w.step()
				w.check()
			}
			w.end()
			if w.founded < 2 {
				t.Errorf("the history is poor: it has %d foundings", w.founded)
			}
			replaced.Add(int64(len(w.replaced)))
		})
	}
}

// simWorld is a control plane and its modelled hosts.
type simWorld struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time
	s        *store.Store
	r        *Reconciler
	hosts    []*simHost
	late     []func()                     // reports and steps that have not arrived
	founders map[entry.Incarnation]string // the store that has founded a group
	minted   int                          // ids
	founded  int
	replaced map[tenancy.NamespaceID]bool
}

// simHost is a registered host and the stores that it has joined with.
type simHost struct {
	id     string
	run    int64
	alive  bool
	store  *simStore // of its newest process
	stores []*simStore
}

// simStore is a data directory.
type simStore struct {
	id     string
	docs   map[string]wire.Doc
	copies map[string]*simCopy // by namespace
}

// simCopy is the data of a namespace in one store.
type simCopy struct {
	groups   []entry.Incarnation
	complete bool
}

func newSimWorld(t *testing.T, seed uint64) *simWorld {
	s, _ := openStore(t)
	w := &simWorld{t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_700_000_000, 0), s: s, founders: map[entry.Incarnation]string{}, replaced: map[tenancy.NamespaceID]bool{}}
	now := func() time.Time { return w.now }
	w.r = New(Config{Store: s, Observations: NewObservations(now, HostGrace), Now: now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	propose(t, s, &store.CreateOrg{Meta: &store.Meta{Principal: "test"}, Id: "org_1", Name: "acme"})
	for i := range 3 {
		h := &simHost{id: fmt.Sprint("host_", i)}
		hash := make([]byte, 32)
		hash[0] = byte(i)
		propose(t, s, &store.CreateHost{Meta: &store.Meta{Principal: "test"}, Id: h.id, Name: fmt.Sprint("h", i), Kind: string(keyring.Host), Region: "eu",
			Credential: &store.Credential{Id: fmt.Sprint("c", i), Kind: string(keyring.Host), Owner: h.id, Hash: hash}})
		w.hosts = append(w.hosts, h)
		w.start(h, w.newStore(h))
	}
	return w
}

func (w *simWorld) id(prefix string) string {
	w.minted++
	return fmt.Sprint(prefix, w.minted)
}

func (w *simWorld) newStore(h *simHost) *simStore {
	at := &simStore{id: w.id(wire.StorePrefix), docs: map[string]wire.Doc{}, copies: map[string]*simCopy{}}
	h.stores = append(h.stores, at)
	return at
}

// start starts a new process of a host on a store.
func (w *simWorld) start(h *simHost, at *simStore) {
	joined, err := store.Propose[*store.JoinHostResult](w.t.Context(), w.s, &store.JoinHost{
		Meta: &store.Meta{Principal: h.id}, Id: h.id, Address: "http://" + h.id, Version: "v1", Store: at.id,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	h.run, h.store, h.alive = joined.Run, at, true
}

// step lets one random thing happen.
func (w *simWorld) step() {
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	switch n := w.rng.IntN(40); {
	case n < 3:
		w.create()
	case n < 11:
		w.r.pass(w.t.Context(), leading(w.t, w.s))
	case n < 13:
		w.delayStep()
	case n < 21:
		w.deliver(h, w.rng.IntN(3))
	case n < 28:
		w.act(h)
	case n < 34:
		w.report(h)
	case n < 36 && len(w.late) > 0:
		i := w.rng.IntN(len(w.late))
		arrive := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		arrive()
	case n == 36:
		h.alive = false
	case n == 37:
		w.start(h, h.stores[w.rng.IntN(len(h.stores))])
	case n == 38 && len(h.stores) < 4:
		w.start(h, w.newStore(h))
	default:
		w.now = w.now.Add(time.Duration(w.rng.Int64N(int64(AliveLimit / 2))))
	}
}

func (w *simWorld) create() {
	all := w.namespaces()
	if len(all) > 3 && w.rng.IntN(2) == 0 {
		w.delete(all[w.rng.IntN(len(all))])
		return
	}
	incarnations, err := store.NewIncarnations(w, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	id := w.id("ns_")
	propose(w.t, w.s, &store.CreateNamespace{Meta: &store.Meta{Principal: "test"}, Id: id, Org: "org_1", Name: "n" + id[3:], OperationId: w.id("op_"),
		Spec: &store.Spec{Region: "eu", Tier: "shared", Replicas: 1, Shards: 1}, Incarnations: incarnations})
}

func (w *simWorld) delete(ns fleet.Namespace) {
	propose(w.t, w.s, &store.DeleteNamespace{Meta: &store.Meta{Principal: "test"}, Id: string(ns.ID), OperationId: w.id("op_")})
}

// Read implements io.Reader with the randomness of the seed.
func (w *simWorld) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(w.rng.Uint32())
	}
	return len(p), nil
}

// delayStep plans a step as a second reconciler would, and takes it later.
func (w *simWorld) delayStep() {
	work, hosts, err := w.r.observe(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if len(work) == 0 {
		return
	}
	ns := work[w.rng.IntN(len(work))]
	step := plan.Next(ns, hosts, w.r.cfg.Observations.Cells(ns))
	if step.Kind == plan.None || step.Kind == plan.Await {
		return
	}
	w.late = append(w.late, func() {
		if err := w.r.step(w.t.Context(), leading(w.t, w.s), ns, step); err != nil {
			w.t.Fatalf("a late %s of %s: %v", step.Kind, ns.ID, err)
		}
	})
}

// deliver sends a host the newest documents, as the control plane shares them, but for the last few.
func (w *simWorld) deliver(h *simHost, missing int) {
	if !h.alive {
		return
	}
	docs, err := w.s.Docs(w.t.Context(), 0, store.MaxPage)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range docs[:max(0, len(docs)-missing)] {
		known, heard := h.store.docs[d.Namespace]
		if d.Host != h.id {
			if d.Role == wire.Found || !heard && d.Generation == 1 || d.Desired == wire.Absent && !heard {
				continue
			}
			d.Store, d.Role = "", ""
			if d.Desired == wire.Open {
				d.Desired = wire.Leave
			}
		}
		if d.Number > known.Number && d.Generation >= known.Generation {
			h.store.docs[d.Namespace] = d
		}
	}
}

// act makes one effect of one document on a host, which may crash before the next.
func (w *simWorld) act(h *simHost) {
	if !h.alive || len(h.store.docs) == 0 {
		return
	}
	var ids []string
	for id := range h.store.docs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	id := ids[w.rng.IntN(len(ids))]
	d, at := h.store.docs[id], h.store.copies[id]
	switch {
	case d.Desired == wire.Absent, d.Desired == wire.Leave && at != nil && !slices.Equal(at.groups, d.Incarnations):
		delete(h.store.copies, id)
	case d.Desired != wire.Open || d.Store != h.store.id || d.Role != wire.Found:
	case at == nil:
		w.found(h, id, d)
	case slices.Equal(at.groups, d.Incarnations):
		at.complete = true
	}
}

func (w *simWorld) found(h *simHost, id string, d wire.Doc) {
	for _, i := range d.Incarnations {
		if by, ok := w.founders[i]; ok && by != h.store.id {
			w.t.Fatalf("%s and %s have founded %v of %s", by, h.store.id, i, id)
		}
		w.founders[i] = h.store.id
	}
	h.store.copies[id] = &simCopy{groups: d.Incarnations}
	w.founded++
}

// report sends the report of a host, which may be lost or late. A late one of an older process is refused.
func (w *simWorld) report(h *simHost) {
	if !h.alive {
		return
	}
	of, run := h.report(), h.run
	arrive := func() {
		if run == h.run {
			w.r.cfg.Observations.Observe(leading(w.t, w.s), h.id, of)
		}
	}
	switch w.rng.IntN(6) {
	case 0:
	case 1:
		w.late = append(w.late, arrive)
	default:
		arrive()
	}
}

func (h *simHost) report() (r wire.Report) {
	for id, d := range h.store.docs {
		at := h.store.copies[id]
		c := wire.CellReport{Namespace: id, Generation: d.Generation, State: wire.Opening}
		switch {
		case d.Desired != wire.Open && at == nil:
			c.State = wire.Gone
		case d.Desired != wire.Open:
			c.State = wire.Closing
		case d.Store != h.store.id:
			c.State, c.Error = wire.Waiting, "elsewhere"
		case at == nil && d.Role == wire.Found:
		case at == nil || !slices.Equal(at.groups, d.Incarnations):
			c.State, c.Error = wire.Failed, "lost, or another history"
		case at.complete:
			c.State, c.Incarnations = wire.Opened, at.groups
			c.Groups = []wire.GroupReport{{Role: wire.Leading, Epoch: 1, Generation: d.Generation, Configuration: 1, Voters: []string{d.Store}}}
		}
		r.Cells = append(r.Cells, c)
	}
	return r
}

func (w *simWorld) namespaces() []fleet.Namespace {
	all, err := w.s.Namespaces(w.t.Context(), "org_1", "", store.MaxPage)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// check checks that the data of a namespace whose founding is recorded is where the control plane says.
func (w *simWorld) check() {
	for _, ns := range w.namespaces() {
		if ns.Generation > 1 && ns.Phase != fleet.Deleting {
			w.replaced[ns.ID] = true
		}
		switch {
		case ns.Phase == fleet.Active && !ns.Founded:
			w.t.Fatalf("%s is active and was never founded", ns.ID)
		case !ns.Founded || ns.Phase == fleet.Deleting:
			continue
		}
		if at := w.copyOn(ns); at == nil || !at.complete || !slices.Equal(at.groups, ns.Incarnations) || w.founders[ns.Incarnations[0]] != ns.Store {
			w.t.Fatalf("the founding of %+v is recorded, and its store has %+v", ns, at)
		}
	}
}

func (w *simWorld) copyOn(ns fleet.Namespace) *simCopy {
	for _, h := range w.hosts {
		for _, at := range h.stores {
			if at.id == ns.Store {
				return at.copies[string(ns.ID)]
			}
		}
	}
	return nil
}

// end ends the faults. Every operation ends then, but for creates whose host cannot open the namespace, which end
// when the namespace is deleted.
func (w *simWorld) end() {
	for _, h := range w.hosts {
		w.start(h, h.store)
	}
	w.late = nil
	w.settle()
	for _, ns := range w.namespaces() {
		if ns.Phase != fleet.Provisioning {
			continue
		}
		if w.r.Waiting(string(ns.ID)) == "" {
			w.t.Errorf("%s waits and nobody knows why: %+v", ns.ID, ns)
		}
		w.delete(ns)
	}
	w.settle()
	left, err := w.s.Unsettled(context.WithoutCancel(w.t.Context()), nil)
	if err != nil || len(left) > 0 {
		w.t.Errorf("operations that have not ended: %+v, %v", left, err)
	}
}

// settle runs everything without faults until nothing can change any more.
func (w *simWorld) settle() {
	for range 30 {
		for _, h := range w.hosts {
			w.deliver(h, 0)
			for range 3 * len(h.store.docs) {
				w.act(h)
			}
			w.r.cfg.Observations.Observe(leading(w.t, w.s), h.id, h.report())
		}
		w.r.pass(w.t.Context(), leading(w.t, w.s))
		w.check()
		w.now = w.now.Add(time.Millisecond)
	}
}
