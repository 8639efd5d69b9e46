package reconcile

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy/keyring"
)

var (
	seeds = flag.Uint64("sim.seeds", 200, "histories that TestFleetSimulation plays")
	first = flag.Uint64("sim.first", 0, "seed of the first history")
)

// TestFleetSimulation plays random histories of the planner, two reconcilers and a real store with seven modelled hosts,
// whose groups are models too. The code of real hosts makes the reports, and that of a real control plane takes them.
// Reports and documents are lost, late and repeated, steps are late, hosts crash between any two effects, stay away, lose
// their disk and go back to a lost one, leaders of the control plane change, and namespaces are created, scaled, drained
// and deleted. In each history
//
//   - an incarnation has at most one founder,
//   - no acknowledged entry of a group is lost,
//   - a majority of the voters of a group is up to date on a store that is not lost, unless the history has lost one
//     before its founding was recorded,
//   - a reconciler that acknowledges a report has all cells of the host, and no others,
//   - and every operation and every change ends once the faults do.
func TestFleetSimulation(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	all := map[string]int{}
	t.Cleanup(func() {
		want := []string{"founded", "left", "dead", "kept", "replace", "change", "settle", "remove", "delta", "part", "full report wanted", "forgotten"}
		if !testing.Short() {
			// too rare for a few histories
			want = append(want, "discarded", "recovered", "recovery refused", "refounded", "set aside")
		}
		for _, what := range want {
			if all[what] == 0 {
				t.Errorf("the histories are poor: none of %v is %q", all, what)
			}
		}
	})
	number := *seeds
	if testing.Short() {
		number /= 20 // the race detector slows SQLite down
	}
	for seed := *first; seed < *first+number; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newSimWorld(t, seed)
			for step := range 250 {
				if step == 100 && seed%2 == 1 {
					w.fail()
				}
				w.step()
				w.check()
			}
			w.end()
			mu.Lock()
			defer mu.Unlock()
			for what, n := range w.count {
				all[what] += n
			}
		})
	}
}

// simGrace is the grace of the simulated control plane. It is short, so that hosts die often.
const simGrace = 2 * AliveLimit

// simWorld is a control plane and its modelled hosts.
type simWorld struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time
	s        *store.Store
	r        [2]*Reconciler // of the leader, and of one that thinks so
	hosts    []*simHost
	draining map[string]bool
	late     []func() // reports, documents and steps that have not arrived
	groups   map[entry.Incarnation]*simGroup
	founders map[entry.Incarnation]string  // the store that has founded a group
	doomed   map[string]bool               // namespaces whose founder was lost before the founding was recorded
	lost     map[string]bool               // namespaces that have lost the majority of their copies for ever
	ended    map[string][]simEnded         // by namespace: the recovered groups that must acknowledge nothing any more
	kept     map[entry.Incarnation]simKept // by refounded group
	minted   int                           // ids
	count    map[string]int
	read     simRead
}

// simRead holds the documents and the namespaces of the store until the channel is closed.
type simRead struct {
	until      <-chan struct{}
	docs       []wire.Doc
	namespaces []fleet.Namespace
}

func newSimWorld(t *testing.T, seed uint64) *simWorld {
	s, _ := openStore(t)
	w := &simWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_700_000_000, 0), s: s, draining: map[string]bool{}, groups: map[entry.Incarnation]*simGroup{},
		founders: map[entry.Incarnation]string{}, doomed: map[string]bool{}, count: map[string]int{},
		lost: map[string]bool{}, ended: map[string][]simEnded{}, kept: map[entry.Incarnation]simKept{},
	}
	w.r[0], w.r[1] = w.newReconciler(), w.newReconciler()
	propose(t, s, &store.CreateOrg{Meta: &store.Meta{Principal: "test"}, Id: "org_1", Name: "acme"})
	for i := range 7 {
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

// newReconciler returns the reconciler of a process that begins to lead.
func (w *simWorld) newReconciler() *Reconciler {
	now := func() time.Time { return w.now }
	o := NewObservations(now, simGrace)
	o.Lead(leading(w.t, w.s))
	reached := func(point string) { w.count[strings.TrimSuffix(point, " after")]++ }
	return New(Config{Store: w.s, Observations: o, Now: now, Rand: w, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Reached: reached})
}

func (w *simWorld) id(prefix string) string {
	w.minted++
	return fmt.Sprint(prefix, w.minted)
}

func (w *simWorld) chance(percent int) bool { return w.rng.IntN(100) < percent }

// Read implements io.Reader with the randomness of the seed.
func (w *simWorld) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(w.rng.Uint32())
	}
	return len(p), nil
}

// step lets one random thing happen.
func (w *simWorld) step() {
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	switch n := w.rng.IntN(105); {
	case n < 6:
		w.tenant()
	case n < 31:
		w.tick()
	case n < 34:
		w.delayStep()
	case n < 46:
		w.deliver(h, w.rng.IntN(3))
	case n < 62:
		for range 4 {
			w.act(h)
		}
	case n < 84:
		w.work()
	case n < 90 && len(w.late) > 0:
		i := w.rng.IntN(len(w.late))
		arrive := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		arrive()
	case n < 93:
		if down := len(slices.DeleteFunc(slices.Clone(w.hosts), func(h *simHost) bool { return h.alive })); down < 3 {
			h.alive = false
		}
	case n < 95 && h.alive: // a crash and a fast restart
		w.start(h, h.store)
	case n < 97:
		for _, h := range w.hosts {
			if !h.alive {
				w.start(h, h.store)
				break
			}
		}
	case n == 97:
		w.changeStore(h)
	case n == 98:
		w.drain(h)
	case n == 99:
		w.r[w.rng.IntN(2)] = w.newReconciler()
	case n > 99:
		w.operate()
	}
}

// tick lets time pass. Hosts report, and the reconcilers look.
func (w *simWorld) tick() {
	w.now = w.now.Add(time.Duration(w.rng.Int64N(int64(AliveLimit * 3 / 4))))
	for _, h := range w.hosts {
		w.report(h)
		if w.r[0].cfg.Observations.Host(plan.Host{ID: h.id}).Dead {
			w.count["dead"]++
		}
	}
	w.pass(w.r[0])
	if w.chance(30) {
		w.pass(w.r[1])
	}
}

func (w *simWorld) pass(r *Reconciler) { r.pass(w.t.Context(), leading(w.t, w.s)) }

// tenant creates, scales or deletes a namespace.
func (w *simWorld) tenant() {
	all := w.namespaces()
	replicas := uint32(1 + 2*w.rng.IntN(3))
	switch {
	case len(all) < 3 || len(all) < 6 && w.chance(20):
		w.create(replicas, 1+w.rng.IntN(2))
	case w.chance(20):
		w.delete(all[w.rng.IntN(len(all))])
	default:
		ns := all[w.rng.IntN(len(all))]
		// A namespace that is being deleted refuses the change.
		_, _ = store.Propose[any](w.t.Context(), w.s, &store.UpdateNamespace{Meta: &store.Meta{Principal: "test"}, Id: string(ns.ID), Replicas: &replicas})
		w.read = simRead{}
	}
}

func (w *simWorld) create(replicas uint32, shards int) {
	incarnations, err := store.NewIncarnations(w, shards)
	if err != nil {
		w.t.Fatal(err)
	}
	id := w.id("ns_")
	propose(w.t, w.s, &store.CreateNamespace{Meta: &store.Meta{Principal: "test"}, Id: id, Org: "org_1", Name: "n" + id[3:], OperationId: w.id("op_"),
		Spec: &store.Spec{Region: "eu", Tier: "shared", Replicas: replicas, Shards: uint32(shards)}, Incarnations: incarnations})
}

func (w *simWorld) delete(ns fleet.Namespace) {
	propose(w.t, w.s, &store.DeleteNamespace{Meta: &store.Meta{Principal: "test"}, Id: string(ns.ID), OperationId: w.id("op_")})
}

// delayStep plans a step as a reconciler would, and takes it later.
func (w *simWorld) delayStep() {
	r := w.r[w.rng.IntN(2)]
	work, hosts, err := r.observe(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if len(work) == 0 {
		return
	}
	ns := work[w.rng.IntN(len(work))]
	step := plan.Next(ns, hosts, r.cfg.Observations.Cells(ns))
	if step.Kind == plan.None || step.Kind == plan.Await {
		return
	}
	w.late = append(w.late, func() {
		if err := r.step(w.t.Context(), leading(w.t, w.s), ns, step); err != nil {
			w.t.Fatalf("a late %s of %s: %v", step.Kind, ns.ID, err)
		}
	})
}

// work lets one random thing happen in a random group.
func (w *simWorld) work() {
	all := w.alive()
	if len(all) == 0 {
		return
	}
	g := all[w.rng.IntN(len(all))]
	for range 4 {
		stores := slices.Sorted(maps.Keys(g.has))
		switch n := w.rng.IntN(10); {
		case !g.leads() || n == 0:
			g.elect(w.t)
		case n < 2:
			g.lag()
		case n < 3:
			g.commit(simEntry{})
		case n < 6:
			g.catchUp(stores[w.rng.IntN(len(stores))], 1+w.rng.IntN(4))
		case n < 7:
			g.propose()
		default:
			g.drive(w.t)
		}
	}
}

// alive returns the groups that have members, in the order of their incarnations.
func (w *simWorld) alive() (all []*simGroup) {
	for _, i := range slices.SortedFunc(maps.Keys(w.groups), func(a, b entry.Incarnation) int { return slices.Compare(a[:], b[:]) }) {
		if len(w.groups[i].has) > 0 {
			all = append(all, w.groups[i])
		}
	}
	return all
}

// changeStore restarts a host with another store, a new one or an old one, and may delete the present one. It may take
// the majority of the copies from a namespace, if an operator can recover the namespace from another copy.
func (w *simWorld) changeStore(h *simHost) {
	var doomed, lost []string
	for _, ns := range w.namespaces() {
		for _, i := range ns.Incarnations {
			g := w.groups[i]
			switch {
			case ns.Phase == fleet.Deleting:
			case g == nil:
				if w.kept[i].store == h.store.id {
					return
				}
			case g.quorum(g.peers, func(store string) bool { return store != h.store.id && w.has(g, store) }):
			case !ns.Founded:
				doomed = append(doomed, string(ns.ID))
			case !w.chance(30) || !w.recoverable(ns, h.store.id):
				return
			default:
				lost = append(lost, string(ns.ID))
			}
		}
	}
	for _, id := range doomed {
		w.doomed[id] = true
	}
	for _, id := range lost {
		w.lost[id] = true
	}
	old := h.store
	if w.chance(50) && len(h.stores) > 1 {
		w.start(h, h.stores[w.rng.IntN(len(h.stores))])
	} else {
		w.start(h, w.newStore(h))
	}
	if old != h.store && w.chance(50) {
		h.stores = slices.DeleteFunc(h.stores, func(s *simStore) bool { return s == old })
		for _, g := range w.groups {
			delete(g.has, old.id)
		}
	}
}

// has reports whether a store has every acknowledged entry of a group and is not lost.
func (w *simWorld) has(g *simGroup, store string) bool {
	return g.current(store) && w.hostOf(store) != nil
}

// drain lets a host drain, or a draining one drain no more. At most two drain, so that five are left.
func (w *simWorld) drain(h *simHost) {
	meta := &store.Meta{Principal: "test"}
	switch {
	case w.draining[h.id]:
		propose(w.t, w.s, &store.UndrainHost{Meta: meta, Id: h.id})
		delete(w.draining, h.id)
	case len(w.draining) < 2:
		propose(w.t, w.s, &store.DrainHost{Meta: meta, Id: h.id})
		w.draining[h.id] = true
	}
}

// state returns the documents and the namespaces of the store. It reads them only after a change.
func (w *simWorld) state() *simRead {
	_, changed := w.s.Changes()
	if changed == w.read.until {
		return &w.read
	}
	docs, err := w.s.Docs(w.t.Context(), 0, store.MaxPage)
	if err != nil {
		w.t.Fatal(err)
	}
	docs = slices.DeleteFunc(docs, func(d wire.Doc) bool { return d.Kind != wire.KindPlacement }) // the hosts authenticate nobody
	all, err := w.s.Namespaces(w.t.Context(), "org_1", "", store.MaxPage)
	if err != nil {
		w.t.Fatal(err)
	}
	w.read = simRead{changed, docs, all}
	return &w.read
}

func (w *simWorld) namespaces() []fleet.Namespace { return w.state().namespaces }

// check checks that the groups of each namespace whose founding is recorded have kept their data.
func (w *simWorld) check() {
	for _, ns := range w.namespaces() {
		switch {
		case ns.Phase == fleet.Active && !ns.Founded:
			w.t.Fatalf("%s is active and was never founded", ns.ID)
		case !ns.Founded || ns.Phase == fleet.Deleting || w.doomed[string(ns.ID)]:
			continue
		}
		w.checkEnded(ns)
		for shard, i := range ns.Incarnations {
			g := w.groups[i]
			if w.lost[string(ns.ID)] || g == nil && w.waitsForHost(i) {
				continue
			}
			if g == nil || !g.quorum(g.peers, func(store string) bool { return w.has(g, store) }) {
				w.t.Fatalf("shard %d of %+v has lost the majority of its copies: %+v", shard, ns, g)
			}
		}
	}
}

// end ends the faults. Every operation and every change ends then, but for two cases, which say why they wait and end when
// the namespace is deleted: the founder was lost before the founding was recorded, and a late step has recorded it; or
// a store that has entries of a replaced founder's groups is to join the new ones, and its host refuses them.
func (w *simWorld) end() {
	for _, h := range w.hosts {
		w.start(h, h.store)
	}
	w.late = nil
	w.settle()
	w.recoverAll()
	w.settle()
	for _, ns := range w.namespaces() {
		if w.r[0].Waiting(string(ns.ID)) == "" || !w.doomed[string(ns.ID)] && !w.foreign(ns) {
			w.checkSettled(ns)
			continue
		}
		w.delete(ns)
	}
	w.settle()
	left, err := w.s.Unsettled(context.WithoutCancel(w.t.Context()), slices.Collect(maps.Keys(w.draining)))
	if err != nil || len(left) > 0 {
		w.t.Errorf("operations and changes that have not ended: %+v, %v, because %s", left, err, w.reasons(left))
	}
}

// foreign reports whether the store of a member has entries of other groups than the namespace's.
func (w *simWorld) foreign(ns fleet.Namespace) bool {
	return slices.ContainsFunc(ns.Members, func(m fleet.GroupMember) bool {
		h := w.hostOf(m.Store)
		if h == nil {
			return false
		}
		groups := h.store.copies[string(ns.ID)]
		return !slices.Equal(groups, ns.Incarnations) && !w.waits(h.store, groups)
	})
}

func (w *simWorld) reasons(left []fleet.Namespace) string {
	var all []string
	for _, ns := range left {
		all = append(all, w.r[0].Waiting(string(ns.ID)))
	}
	return strings.Join(all, "; ")
}

// checkSettled checks that the groups of a namespace are its list, and that nobody else has a copy.
func (w *simWorld) checkSettled(ns fleet.Namespace) {
	if ns.Phase != fleet.Active || len(ns.Members) != ns.Spec.Replicas {
		w.t.Errorf("%+v is not settled: %s", ns, w.r[0].Waiting(string(ns.ID)))
		return
	}
	w.count["kept"]++
	for _, h := range w.hosts {
		_, has := h.store.copies[string(ns.ID)]
		if _, is := ns.Member(h.store.id); is != has || h.store.aside[string(ns.ID)] {
			w.t.Errorf("%s has a copy: %v, and one aside: %v; the namespace is %+v", h.store.id, has, h.store.aside[string(ns.ID)], ns)
		}
	}
	for _, i := range ns.Incarnations {
		for _, p := range w.groups[i].peers {
			if _, is := ns.Member(p.store); !is || !p.voter {
				w.t.Errorf("%+v is in a group of %+v", p, ns)
			}
		}
	}
}

// settle runs everything without faults until the store has not changed for some rounds.
func (w *simWorld) settle() {
	quiet := 0
	for range 60 {
		before := w.state().until
		w.round()
		if quiet++; w.state().until != before {
			quiet = 0
		}
		if quiet == 8 {
			return
		}
	}
}

// round lets hosts, groups and the leading reconciler do their work once, without faults.
func (w *simWorld) round() {
	for _, h := range w.hosts {
		w.deliver(h, 0)
		for range 4 * len(h.store.docs) {
			w.act(h)
		}
	}
	for _, g := range w.alive() {
		for range 8 {
			if !g.leads() {
				g.elect(w.t)
			}
			g.propose()
			for store := range g.has {
				g.catchUp(store, len(g.log))
			}
			g.drive(w.t)
		}
	}
	for _, h := range w.hosts {
		w.reportTo(h, w.r[0])
	}
	w.pass(w.r[0])
	w.check()
	w.now = w.now.Add(time.Second)
}
