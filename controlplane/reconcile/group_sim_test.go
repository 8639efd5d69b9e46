package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/engine/membership"
)

// simGroup is a model of a Raft group. Its log is that of the leader, and each member has a prefix of it. A
// configuration is appended only if it is committed at once, and one change follows the other.
type simGroup struct {
	w         *simWorld
	namespace string
	log       []simEntry
	committed int            // length of the log that a majority of the voters had
	has       map[string]int // by store with a copy: length of its log
	votesFrom map[string]int // by store that joined with no log: the length from which it takes part in elections
	peers     []simPeer      // the newest configuration
	index     int            // its position in the log, from 1
	leader    string         // store; "" = none
	term      int            // of the newest leader
}

// simEntry is a tenant's write, a list of members or a configuration.
type simEntry struct {
	list  *simList
	peers []simPeer
	term  int
}

type simList struct {
	generation int64
	members    []string
}

type simPeer struct {
	store string
	voter bool
}

// found founds the group in a store that has the writes of some entries already, which only a refounded one has.
func (g *simGroup) found(store string, entries int) {
	g.log = make([]simEntry, entries, entries+1)
	for i := range g.log {
		g.log[i].term = g.term
	}
	g.peers, g.leader = []simPeer{{store, true}}, store
	g.log = append(g.log, simEntry{peers: g.peers, term: g.term})
	g.index, g.committed = len(g.log), len(g.log)
	g.has, g.votesFrom = map[string]int{store: len(g.log)}, map[string]int{}
}

// up reports whether a store's member runs.
func (g *simGroup) up(store string) bool {
	_, has := g.has[store]
	h := g.w.hostOf(store)
	return has && h != nil && h.alive && h.store.opened[g.namespace]
}

// leads reports whether the group has a leader with a majority of the voters.
func (g *simGroup) leads() bool { return g.leader != "" && g.up(g.leader) && g.quorum(g.peers, g.up) }

// quorum reports whether most voters of a configuration fit.
func (g *simGroup) quorum(peers []simPeer, fits func(string) bool) bool {
	all, fitting := 0, 0
	for _, p := range peers {
		if p.voter {
			all++
			if fits(p.store) {
				fitting++
			}
		}
	}
	return fitting > all/2
}

// current reports whether a store has every entry that was committed.
func (g *simGroup) current(store string) bool {
	n, has := g.has[store]
	return has && n >= g.committed
}

// commit appends an entry to a random majority of the voters; without a majority it changes nothing.
func (g *simGroup) commit(e simEntry) bool {
	peers := g.peers
	if e.peers != nil {
		peers = e.peers
	}
	if !g.leads() || !g.quorum(peers, g.up) {
		return false
	}
	e.term = g.term
	g.log = append(g.log, e)
	g.has[g.leader] = len(g.log)
	for _, at := range g.w.rng.Perm(len(peers)) {
		done := g.quorum(peers, func(store string) bool { return g.has[store] == len(g.log) })
		if store := peers[at].store; peers[at].voter && g.up(store) && (!done || g.w.chance(60)) {
			g.has[store] = len(g.log)
		}
	}
	g.committed = len(g.log)
	if e.peers != nil {
		g.peers, g.index = e.peers, len(g.log)
	}
	return true
}

// lag appends a write to the leader's log only. It may be committed later, or lost with the leader.
func (g *simGroup) lag() {
	if g.leader != "" && g.up(g.leader) {
		g.log = append(g.log, simEntry{term: g.term})
		g.has[g.leader] = len(g.log)
	}
}

// catchUp sends a member a part of the log that it lacks.
func (g *simGroup) catchUp(store string, most int) {
	lacks := len(g.log) - g.has[store]
	if !g.leads() || !g.up(store) || lacks == 0 || !slices.ContainsFunc(g.peers, func(p simPeer) bool { return p.store == store }) {
		return
	}
	if g.has[store] == 0 {
		g.votesFrom[store] = g.committed
	}
	g.has[store] += min(lacks, most)
	for g.committed < len(g.log) && g.quorum(g.peers, func(store string) bool { return g.has[store] > g.committed }) {
		g.committed++
	}
}

// configuration returns the newest configuration in the log of a store.
func (g *simGroup) configuration(store string) []simPeer {
	for _, e := range slices.Backward(g.log[:g.has[store]]) {
		if e.peers != nil {
			return e.peers
		}
	}
	return nil
}

// elect makes a store the leader that has a vote in the configuration that it knows, and is as far as a majority of the
// voters there. The configuration may be an old one. Entries that the leader lacks are lost.
func (g *simGroup) elect(t *testing.T) {
	var able []string
	for _, candidate := range slices.Sorted(maps.Keys(g.has)) {
		grants := func(store string) bool {
			return g.up(store) && g.has[store] <= g.has[candidate] && g.has[store] >= max(1, g.votesFrom[store])
		}
		known := g.configuration(candidate)
		if slices.Contains(known, simPeer{candidate, true}) && grants(candidate) && g.quorum(known, grants) {
			able = append(able, candidate)
		}
	}
	if g.leader = ""; len(able) == 0 {
		return
	}
	g.leader = able[g.w.rng.IntN(len(able))]
	g.term++
	n := g.has[g.leader]
	if n < g.committed {
		t.Fatalf("%s leads with %d entries, and %d were acknowledged", g.leader, n, g.committed)
	}
	g.log = g.log[:n]
	for store := range g.has {
		g.has[store] = min(g.has[store], n)
	}
}

// list returns the list of members in the leader's state; nil = none.
func (g *simGroup) list() *simList {
	for _, e := range slices.Backward(g.log) {
		if e.list != nil {
			return e.list
		}
	}
	return nil
}

// drive makes the next change of the configuration towards the list.
func (g *simGroup) drive(t *testing.T) {
	list := g.list()
	if list == nil || !g.leads() {
		return
	}
	s := membership.Situation{Leader: g.leader, Index: uint64(g.index)}
	for _, store := range list.members {
		s.Listed = append(s.Listed, membership.Listed{ID: store, Address: store})
	}
	for _, p := range g.peers {
		caught := g.has[p.store] == len(g.log)
		s.Peers = append(s.Peers, membership.Peer{ID: p.store, Voter: p.voter, Alive: g.up(p.store), Log: caught, View: caught})
	}
	c := membership.Next(s)
	after := slices.Clone(g.peers)
	at := slices.IndexFunc(after, func(p simPeer) bool { return p.store == c.ID })
	switch c.Kind {
	case membership.None:
		return
	case membership.Transfer:
		if g.up(c.ID) && g.has[c.ID] == len(g.log) {
			g.leader = c.ID
		}
		return
	case membership.Add:
		after = append(after, simPeer{store: c.ID})
	case membership.Promote:
		after[at].voter = true
	case membership.Remove:
		after = slices.Delete(after, at, at+1)
	}
	safe := g.quorum(g.peers, g.current)
	if g.commit(simEntry{peers: after}); safe && !g.quorum(g.peers, g.current) {
		t.Fatalf("%s %s leaves %+v without a majority that is up to date", c.Kind, c.ID, g.peers)
	}
}

// deleted removes a store's copy from the group.
func (g *simGroup) deleted(t *testing.T, store string) {
	if slices.Contains(g.peers, simPeer{store, true}) {
		t.Fatalf("%s deletes its copy and has a vote in %+v", store, g.peers)
	}
	delete(g.has, store)
	delete(g.votesFrom, store)
}

// configuredAfter reports whether a store's log has a configuration with the store after an index.
func (g *simGroup) configuredAfter(store string, index uint64) bool {
	for at, e := range g.log[:g.has[store]] {
		if uint64(at+1) > index && slices.ContainsFunc(e.peers, func(p simPeer) bool { return p.store == store }) {
			return true
		}
	}
	return false
}

// report returns the report of a store's member.
func (g *simGroup) report(store string) wire.GroupReport {
	n := g.has[store]
	if n == 0 {
		return wire.GroupReport{Role: wire.Joining}
	}
	r := wire.GroupReport{Role: wire.Following, Last: uint64(n), Term: uint64(g.log[n-1].term)}
	if g.leader != store || !g.leads() {
		return r
	}
	r.Role, r.Configuration = wire.Leading, uint64(g.index)
	if list := g.list(); list != nil {
		r.Epoch, r.Generation = 1, list.generation
	}
	for _, p := range g.peers {
		if p.voter {
			r.Voters = append(r.Voters, p.store)
		} else {
			r.Learners = append(r.Learners, p.store)
		}
	}
	slices.SortFunc(r.Voters, cmp.Compare)
	return r
}
