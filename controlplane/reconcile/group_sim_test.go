package reconcile

import (
	"slices"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// simGroup is the Raft group of a namespace with one shard: the committed configuration, the replicated list of members
// and the writes that tenants got acknowledged. A leader does one thing at a time while a majority of the voters is
// reachable, by the rules of ADR 0065.
type simGroup struct {
	w          *simWorld
	namespace  string
	generation int64    // of the list; 0 = none yet
	listed     []string // stores
	voters     []string
	learners   []string
	index      uint64 // of the configuration
	leader     string // "" = none
	acked      int    // number of acknowledged writes
}

// leadSome lets the leader of some namespace do one thing, while each store is reachable by chance.
func (w *simWorld) leadSome() {
	if all := w.namespaces(); len(all) > 0 {
		w.lead(all[w.rng.IntN(len(all))], 0.9)
	}
}

// lead lets the leader of a namespace's group do one thing.
func (w *simWorld) lead(ns fleet.Namespace, reach float64) {
	for _, i := range ns.Incarnations {
		if g := w.groups[i]; g != nil {
			g.step(reach)
		}
	}
}

// copyOf returns the copy of a store, and whether a running host has it open.
func (g *simGroup) copyOf(store string) (at *simCopy, d wire.Doc, open bool) {
	for _, h := range g.w.hosts {
		for _, s := range h.stores {
			if s.id != store {
				continue
			}
			at, d = s.copies[g.namespace], s.docs[g.namespace]
			if at == nil || g.w.groups[at.groups[0]] != g {
				return nil, d, false
			}
			return at, d, h.alive && h.store == s && d.Desired == wire.Open && s.role(d) != ""
		}
	}
	return nil, d, false
}

// step elects a leader if there is none, and lets it do one thing.
func (g *simGroup) step(reach float64) {
	reachable := map[string]*simCopy{}
	for _, store := range slices.Concat(g.voters, g.learners) {
		if at, _, open := g.copyOf(store); open && g.w.rng.Float64() < reach {
			reachable[store] = at
		}
	}
	if !majority(g.voters, reachable) {
		g.leader = ""
		return
	}
	if g.leader == "" || reachable[g.leader] == nil {
		g.elect(reachable)
	}
	for store, at := range reachable { // replication
		if slices.Contains(g.voters, store) {
			at.log, at.config = g.acked, g.index
		}
	}
	_, d, _ := g.copyOf(g.leader)
	switch n := g.w.rng.IntN(4); {
	case n == 0:
		g.write(reachable)
	case d.Generation > g.generation:
		g.generation, g.listed = d.Generation, nil
		for _, m := range d.Members {
			if m.Role != wire.Leaving {
				g.listed = append(g.listed, m.Store)
			}
		}
	default:
		g.change(reachable)
	}
}

// elect makes the reachable voter with the longest log the leader. A majority of the voters elects it, so that it has
// every acknowledged write.
func (g *simGroup) elect(reachable map[string]*simCopy) {
	g.leader = ""
	for _, store := range g.voters {
		if at := reachable[store]; at != nil && (g.leader == "" || at.log > reachable[g.leader].log) {
			g.leader = store
		}
	}
	if at := reachable[g.leader]; at.log < g.acked {
		g.w.t.Fatalf("the groups of %s have lost %d acknowledged writes: %+v", g.namespace, g.acked-at.log, g)
	}
}

// write acknowledges a write once a majority of the voters has it.
func (g *simGroup) write(reachable map[string]*simCopy) {
	g.acked++
	has := map[string]*simCopy{}
	for _, i := range g.w.rng.Perm(len(g.voters)) {
		if at := reachable[g.voters[i]]; at != nil && !majority(g.voters, has) {
			at.log, has[g.voters[i]] = g.acked, at
		}
	}
}

// change makes the next change of the configuration towards the list.
func (g *simGroup) change(reachable map[string]*simCopy) {
	if g.generation == 0 {
		return
	}
	listed := func(store string) bool { return slices.Contains(g.listed, store) }
	for _, store := range g.listed {
		if !slices.Contains(g.voters, store) && !slices.Contains(g.learners, store) {
			g.commit(reachable, g.voters, append(slices.Clone(g.learners), store))
			return
		}
	}
	for _, store := range g.learners {
		at := reachable[store]
		switch {
		case !listed(store):
			g.commit(reachable, g.voters, without(g.learners, store))
			return
		case at == nil:
		case at.log < g.acked || at.config < g.index:
			at.log, at.config = g.acked, g.index
			return
		default:
			if dead := slices.IndexFunc(g.voters, func(v string) bool { return !listed(v) && reachable[v] == nil }); dead >= 0 {
				g.commit(reachable, without(g.voters, g.voters[dead]), g.learners)
				return
			}
			g.commit(reachable, append(slices.Clone(g.voters), store), without(g.learners, store))
			return
		}
	}
	if slices.ContainsFunc(g.listed, func(store string) bool { return !slices.Contains(g.voters, store) }) {
		return
	}
	if !listed(g.leader) {
		for _, store := range g.listed {
			if reachable[store] != nil {
				g.leader = store
				return
			}
		}
		return
	}
	dead := func(store string) bool { return !listed(store) && reachable[store] == nil }
	leaves := slices.IndexFunc(g.voters, dead)
	if leaves < 0 {
		leaves = slices.IndexFunc(g.voters, func(store string) bool { return !listed(store) })
	}
	if leaves >= 0 {
		g.commit(reachable, without(g.voters, g.voters[leaves]), g.learners)
	}
}

// commit commits a configuration if a majority of its voters is reachable. The stores that it does not have any more do
// not learn of it.
func (g *simGroup) commit(reachable map[string]*simCopy, voters, learners []string) {
	if !majority(voters, reachable) {
		return
	}
	g.index++
	g.voters, g.learners = voters, learners
	for _, store := range voters {
		if at := reachable[store]; at != nil {
			at.log, at.config = g.acked, g.index
		}
	}
}

// check checks that no voter has lost its copy and no acknowledged write is lost, and that a settled namespace has
// exactly its list of members.
func (g *simGroup) check(ns fleet.Namespace) {
	complete := 0
	for _, store := range g.voters {
		at, _, _ := g.copyOf(store)
		if at == nil || !at.complete {
			g.w.t.Fatalf("the voter %s of %s has no copy: %+v", store, ns.ID, g)
		}
		if at.log == g.acked {
			complete++
		}
	}
	if missing := len(g.voters) - complete; missing > len(g.voters)/2 {
		g.w.t.Fatalf("%d of the voters of %s lack acknowledged writes: %+v", missing, ns.ID, g)
	}
	if ns.Phase != fleet.Active || ns.Observed < ns.Generation {
		return
	}
	var stores []string
	for _, m := range ns.Listed() {
		stores = append(stores, m.Store)
	}
	slices.Sort(stores)
	if g.generation != ns.Generation || !slices.Equal(slices.Sorted(slices.Values(g.voters)), stores) || len(g.learners) > 0 {
		g.w.t.Fatalf("%+v is settled with the members %q, and its group is %+v", ns, stores, g)
	}
}

// report returns the report of a store's member.
func (g *simGroup) report(store string, at *simCopy) wire.GroupReport {
	switch {
	case g == nil || at.config == 0:
		return wire.GroupReport{Role: wire.Joining}
	case g.leader != store:
		return wire.GroupReport{Role: wire.Following}
	}
	return wire.GroupReport{
		Role: wire.Leading, Epoch: 1, Generation: g.generation, Configuration: g.index, Voters: slices.Clone(g.voters), Learners: slices.Clone(g.learners),
	}
}

// majority reports whether more than half of the voters are reachable.
func majority(voters []string, reachable map[string]*simCopy) bool {
	n := 0
	for _, store := range voters {
		if reachable[store] != nil {
			n++
		}
	}
	return n > len(voters)/2
}

func without(stores []string, store string) []string {
	return slices.DeleteFunc(slices.Clone(stores), func(s string) bool { return s == store })
}
