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

var seeds = flag.Uint64("sim.seeds", 8, "histories that TestFoundingSimulation plays")

// TestFoundingSimulation plays random histories of the reconciler on a real store with modelled hosts and groups. Reports
// are lost or late, and so are documents and the steps of a second reconciler. Hosts crash between any two effects, join
// with an empty store and go back to a lost one. Namespaces get more and fewer replicas. Each incarnation has at most one
// founder. The groups of a namespace whose founding is recorded keep a copy on each voter and every acknowledged write until
// the namespace is deleted, so that no act of the control plane takes a majority from them. A settled namespace has exactly
// its list of members, and every operation ends once the faults do.
func TestFoundingSimulation(t *testing.T) {
	t.Parallel()
	var replaced, left, settled atomic.Int64
	t.Cleanup(func() {
		if replaced.Load() == 0 || left.Load() == 0 || settled.Load() == 0 {
			t.Errorf("the histories are poor: %d founders were replaced, %d changes of members have settled, and %d copies have left",
				replaced.Load(), settled.Load(), left.Load())
		}
	})
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newSimWorld(t, seed)
			for range 800 {
				w.step()
				w.check()
			}
			w.end()
			if w.founded < 2 {
				t.Errorf("the history is poor: it has %d foundings", w.founded)
			}
			replaced.Add(int64(len(w.replaced)))
			left.Add(int64(w.left))
			settled.Add(int64(w.settled))
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
	groups   map[entry.Incarnation]*simGroup
	minted   int // ids
	founded  int
	left     int // copies of the namespace's own history that were deleted by leave
	first    map[tenancy.NamespaceID]entry.Incarnation
	observed map[tenancy.NamespaceID]int64 // generations
	settled  int                           // changes of members
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
	complete bool   // a founding that was not cut short, or a future member that waits for a leader
	log      int    // writes in it
	config   uint64 // index of the newest configuration in it that has the store; 0 = none
}

func newSimWorld(t *testing.T, seed uint64) *simWorld {
	s, _ := openStore(t)
	w := &simWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_700_000_000, 0), s: s,
		founders: map[entry.Incarnation]string{}, groups: map[entry.Incarnation]*simGroup{},
		first: map[tenancy.NamespaceID]entry.Incarnation{}, observed: map[tenancy.NamespaceID]int64{}, replaced: map[tenancy.NamespaceID]bool{},
	}
	now := func() time.Time { return w.now }
	w.r = New(Config{Store: s, Observations: NewObservations(now, 3*AliveLimit), Now: now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	propose(t, s, &store.CreateOrg{Meta: &store.Meta{Principal: "test"}, Id: "org_1", Name: "acme"})
	for i := range 5 {
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
	raft := h.id + ":7000"
	if h == w.hosts[0] {
		raft = "" // it has no certificate
	}
	joined, err := store.Propose[*store.JoinHostResult](w.t.Context(), w.s, &store.JoinHost{
		Meta: &store.Meta{Principal: h.id}, Id: h.id, Address: "http://" + h.id, Version: "v1", Store: at.id, Raft: raft,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	h.run, h.store, h.alive = joined.Run, at, true
}

// step lets one random thing happen. Faults are rare enough that changes of members end between them, at the latest in a
// calm spell.
func (w *simWorld) step() {
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	switch n := w.rng.IntN(100); {
	case n < 2:
		w.create()
	case n < 5:
		w.scale()
	case n < 16:
		w.r.pass(w.t.Context(), leading(w.t, w.s))
	case n < 18:
		w.delayStep()
	case n < 32:
		w.deliver(h, w.rng.IntN(3))
	case n < 48:
		w.act(h)
	case n < 64:
		w.report(h)
	case n < 88:
		w.leadSome()
	case n < 91 && len(w.late) > 0:
		i := w.rng.IntN(len(w.late))
		arrive := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		arrive()
	case n < 96:
		w.trouble(h)
	case n == 96:
		w.settle(w.rng.IntN(12))
	default:
		w.now = w.now.Add(time.Duration(w.rng.Int64N(int64(AliveLimit / 2))))
	}
}

// trouble crashes a host, starts one that has crashed, or starts one with another store.
func (w *simWorld) trouble(h *simHost) {
	crashed := slices.IndexFunc(w.hosts, func(h *simHost) bool { return !h.alive })
	switch n := w.rng.IntN(8); {
	case crashed >= 0 && n < 6:
		w.start(w.hosts[crashed], w.hosts[crashed].store)
	case n < 6:
		h.alive = false
	case n == 6:
		w.start(h, h.stores[w.rng.IntN(len(h.stores))])
	case len(h.stores) < 4:
		w.start(h, w.newStore(h))
	}
}

func (w *simWorld) create() {
	all := w.namespaces()
	if len(all) > 4 || len(all) > 2 && w.rng.IntN(3) == 0 {
		w.delete(all[w.rng.IntN(len(all))])
		return
	}
	incarnations, err := store.NewIncarnations(w, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	id := w.id("ns_")
	propose(w.t, w.s, &store.CreateNamespace{Meta: &store.Meta{Principal: "test"}, Id: id, Org: "org_1", Name: "n" + id[3:], OperationId: w.id("op_"),
		Spec: &store.Spec{Region: "eu", Tier: "shared", Replicas: w.replicas(), Shards: 1}, Incarnations: incarnations})
}

func (w *simWorld) replicas() uint32 { return 1 + 2*w.rng.Uint32N(2) }

// scale changes the number of replicas of a namespace.
func (w *simWorld) scale() {
	all := w.namespaces()
	if len(all) == 0 {
		return
	}
	ns, replicas := all[w.rng.IntN(len(all))], w.replicas()
	if ns.Phase != fleet.Deleting {
		propose(w.t, w.s, &store.UpdateNamespace{Meta: &store.Meta{Principal: "test"}, Id: string(ns.ID), Replicas: &replicas})
	}
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
		if !slices.ContainsFunc(d.Members, func(m wire.GroupMember) bool { return m.Host == h.id }) {
			founding := slices.ContainsFunc(d.Members, func(m wire.GroupMember) bool { return m.Role == wire.Found })
			if founding || len(d.Members) == 0 || !heard && d.Generation == 1 || d.Desired == wire.Absent && !heard {
				continue
			}
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
	role := h.store.role(d)
	switch {
	case d.Desired == wire.Absent:
		delete(h.store.copies, id)
	case d.Desired == wire.Leave && at != nil && !slices.Equal(at.groups, d.Incarnations):
		delete(h.store.copies, id)
	case d.Desired == wire.Leave && at != nil && role == "" && len(d.Configurations) > 0 && at.config <= d.Configurations[0]:
		delete(h.store.copies, id)
		w.left++
	case d.Desired != wire.Open:
	case at == nil && role == wire.Found:
		w.found(h, id, d)
	case at == nil && role == wire.Join && len(d.Members) > 1:
		h.store.copies[id] = &simCopy{groups: d.Incarnations, complete: true}
	case at != nil && role == wire.Found && slices.Equal(at.groups, d.Incarnations) && !at.complete:
		at.complete, at.config = true, 1
		w.groups[at.groups[0]] = &simGroup{w: w, namespace: id, voters: []string{h.store.id}, index: 1}
	}
}

// role returns the role of the store in a document; "" = it is no member.
func (s *simStore) role(d wire.Doc) string {
	for _, m := range d.Members {
		if m.Store == s.id {
			return m.Role
		}
	}
	return ""
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
	of, run := w.reportOf(h), h.run
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

func (w *simWorld) reportOf(h *simHost) (r wire.Report) {
	for id, d := range h.store.docs {
		at, role := h.store.copies[id], h.store.role(d)
		c := wire.CellReport{Namespace: id, Generation: d.Generation, State: wire.Opening}
		switch {
		case d.Desired != wire.Open && at == nil:
			c.State = wire.Gone
		case d.Desired != wire.Open:
			c.State = wire.Closing
		case role == "", role == wire.Leaving && at == nil:
			c.State, c.Error = wire.Waiting, "elsewhere"
		case at == nil && (role == wire.Found || len(d.Members) > 1):
		case at == nil || !slices.Equal(at.groups, d.Incarnations):
			c.State, c.Error = wire.Failed, "lost, or another history"
		case at.complete:
			c.State, c.Incarnations, c.Groups = wire.Opened, at.groups, []wire.GroupReport{w.groups[at.groups[0]].report(h.store.id, at)}
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

// check checks the groups of the namespaces whose founding is recorded.
func (w *simWorld) check() {
	for _, ns := range w.namespaces() {
		if first, ok := w.first[ns.ID]; !ok {
			w.first[ns.ID] = ns.Incarnations[0]
		} else if first != ns.Incarnations[0] {
			w.replaced[ns.ID] = true
		}
		switch {
		case ns.Phase == fleet.Active && !ns.Founded:
			w.t.Fatalf("%s is active and was never founded", ns.ID)
		case !ns.Founded || ns.Phase == fleet.Deleting:
			continue
		}
		if was := w.observed[ns.ID]; was > 0 && was < ns.Observed {
			w.settled++
		}
		w.observed[ns.ID] = ns.Observed
		g := w.groups[ns.Incarnations[0]]
		if g == nil {
			w.t.Fatalf("the founding of %+v is recorded, and its groups are not there", ns)
		}
		g.check(ns)
	}
}

// end ends the faults. Every operation ends then, but for namespaces whose groups cannot have a leader any more or whose
// hosts cannot take members, which end when they are deleted.
func (w *simWorld) end() {
	for _, h := range w.hosts {
		w.start(h, h.store)
	}
	w.late = nil
	w.settle(40) // until nothing can change any more
	for _, ns := range w.unsettled() {
		if w.r.Waiting(string(ns.ID)) == "" {
			w.t.Errorf("%s waits and nobody knows why: %+v", ns.ID, ns)
		}
		if ns.Phase != fleet.Deleting {
			w.delete(ns)
		}
	}
	w.settle(40) // until nothing can change any more
	if left := w.unsettled(); len(left) > 0 {
		w.t.Errorf("operations that have not ended: %+v", left)
	}
}

func (w *simWorld) unsettled() []fleet.Namespace {
	all, err := w.s.Unsettled(context.WithoutCancel(w.t.Context()), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// settle runs everything for some rounds without further faults.
func (w *simWorld) settle(rounds int) {
	for range rounds {
		for _, ns := range w.namespaces() {
			for range 8 {
				w.lead(ns, 1)
			}
		}
		for _, h := range w.hosts {
			if !h.alive {
				continue
			}
			w.deliver(h, 0)
			for range 3 * len(h.store.docs) {
				w.act(h)
			}
			w.r.cfg.Observations.Observe(leading(w.t, w.s), h.id, w.reportOf(h))
		}
		w.r.pass(w.t.Context(), leading(w.t, w.s))
		w.check()
		w.now = w.now.Add(time.Millisecond)
	}
}
