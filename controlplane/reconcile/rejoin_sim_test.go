package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRejoinSimulation plays random histories of one modelled group on five stores, as the control plane and its hosts
// treat it: a store deletes its copy once a settled configuration lacks it, and joins again with an empty one when a later
// list names it. Stores stop and start at any time, so a leader may die while a store that joins again has only a part of
// the log, in which it is a voter of an old configuration. No acknowledged entry may be lost (simGroup.elect), and the
// group must have a leader once all stores are up.
func TestRejoinSimulation(t *testing.T) {
	t.Parallel()
	again, partial := 0, 0
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newRejoinWorld(t, seed)
			for range 1000 {
				w.step()
				partial += w.partial()
			}
			again += w.count["again"]
			w.end()
		})
	}
	if again == 0 || partial == 0 {
		t.Errorf("the histories are poor: %d stores joined again, and %d times one knew only an old configuration", again, partial)
	}
}

// rejoinWorld is a group and the hosts of its stores, without a control plane.
type rejoinWorld struct {
	*simWorld
	g          *simGroup
	stores     []string
	left       map[string]bool // stores that have deleted a copy
	generation int64
}

func newRejoinWorld(t *testing.T, seed uint64) *rejoinWorld {
	w := &simWorld{t: t, rng: rand.New(rand.NewPCG(seed, 11)), count: map[string]int{}}
	r := &rejoinWorld{simWorld: w, g: &simGroup{w: w, namespace: "ns"}, left: map[string]bool{}}
	for i := range 5 {
		s := &simStore{id: fmt.Sprint("store_", i), opened: map[string]bool{"ns": true}}
		w.hosts = append(w.hosts, &simHost{id: fmt.Sprint("host_", i), alive: true, store: s, stores: []*simStore{s}})
		r.stores = append(r.stores, s.id)
	}
	r.g.found(r.stores[0], 0)
	return r
}

// step lets one random thing happen.
func (w *rejoinWorld) step() {
	g, store := w.g, w.stores[w.rng.IntN(len(w.stores))]
	switch n := w.rng.IntN(20); {
	case n < 2:
		h := w.hostOf(store)
		h.alive = !h.alive || w.chance(30)
	case n < 4:
		g.elect(w.t)
	case n < 5:
		g.commit(simEntry{})
	case n < 6:
		g.lag()
	case n < 13:
		g.catchUp(store, 1<<w.rng.IntN(9))
	case n < 17:
		g.drive(w.t)
	default:
		w.place(store)
	}
}

// listed reports whether the list names a store. Before the first list, it is the founder's group.
func (w *rejoinWorld) listed(store string) bool {
	list := w.g.list()
	return list == nil && store == w.stores[0] || list != nil && slices.Contains(list.members, store)
}

// join gives a listed store an empty copy if it has none.
func (w *rejoinWorld) join(store string) {
	if _, has := w.g.has[store]; has || !w.listed(store) {
		return
	}
	w.g.has[store] = 0
	if w.left[store] {
		w.count["again"]++
	}
}

// place lets a store join. Once the list is in force, a store that it does not name deletes its copy, because the leader
// has reported a later configuration without it, or the list changes.
func (w *rejoinWorld) place(store string) {
	g := w.g
	w.join(store)
	_, has := g.has[store]
	switch {
	case !w.settled():
	case has && !w.listed(store) && !g.configuredAfter(store, uint64(g.index)):
		g.deleted(w.t, store)
		w.left[store] = true
	case w.chance(50):
		members := make([]string, 0, 3)
		for _, at := range w.rng.Perm(len(w.stores))[:1+2*w.rng.IntN(2)] {
			members = append(members, w.stores[at])
		}
		w.generation++
		g.commit(simEntry{list: &simList{generation: w.generation, members: members}})
	}
}

// settled reports whether the group has a leader and exactly the listed members, which vote.
func (w *rejoinWorld) settled() bool {
	list := w.g.list()
	if !w.g.leads() || list == nil {
		return w.g.leads()
	}
	return len(w.g.peers) == len(list.members) && !slices.ContainsFunc(w.g.peers, func(p simPeer) bool {
		return !p.voter || !slices.Contains(list.members, p.store)
	})
}

// partial counts the stores that run, have joined again and know only an old configuration in which they vote.
func (w *rejoinWorld) partial() (n int) {
	for store := range w.left {
		if w.g.up(store) && w.g.has[store] < w.g.votesFrom[store] && slices.Contains(w.g.configuration(store), simPeer{store, true}) {
			n++
		}
	}
	return n
}

// end starts all stores. The group must have a leader then, and reach its list.
func (w *rejoinWorld) end() {
	for _, h := range w.hosts {
		h.alive = true
	}
	for range 50 {
		if !w.g.leads() {
			w.g.elect(w.t)
		}
		for _, store := range w.stores {
			w.join(store)
			w.g.catchUp(store, len(w.g.log))
		}
		w.g.drive(w.t)
	}
	if !w.settled() {
		w.t.Fatalf("with all stores up, the group led by %q is %+v", w.g.leader, w.g.peers)
	}
}
