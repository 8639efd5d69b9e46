package membership

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// world is a model of a group under Raft's rules for one change at a time: a change is made on the leader's
// newest configuration, and takes effect if a majority of the voters of the new configuration is alive.
type world struct {
	nodes  map[string]*node
	leader string // "" = none
	peers  []Peer // the committed configuration; only ID and Voter count
	index  uint64 // of the configuration
	log    int    // length of the leader's log
	listed []Listed
}

// node is a member or future member.
type node struct {
	dead      bool
	log, view int
}

var ids = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// slack is the most entries by which a member may be behind and still count as caught up.
const slack = 3

func newWorld(t *rapid.T) *world {
	w := &world{nodes: map[string]*node{}, index: 1, log: 10}
	for _, id := range ids {
		w.nodes[id] = &node{}
	}
	for _, id := range rapid.Permutation(ids).Draw(t, "first")[:rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "voters")] {
		w.nodes[id].log, w.nodes[id].view = w.log, w.log
		w.peers = append(w.peers, Peer{ID: id, Voter: true})
	}
	w.leader = w.peers[0].ID
	w.list(t)
	return w
}

func (w *world) list(t *rapid.T) {
	w.listed = nil
	for _, id := range rapid.Permutation(ids).Draw(t, "list")[:rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "members")] {
		w.listed = append(w.listed, Listed{id, id + ":1"})
	}
}

// seen returns the leader's present knowledge.
func (w *world) seen() Situation {
	s := Situation{Leader: w.leader, Listed: w.listed, Index: w.index}
	for _, p := range w.peers {
		n := w.nodes[p.ID]
		s.Peers = append(s.Peers, Peer{ID: p.ID, Voter: p.Voter, Alive: !n.dead, Log: n.log+slack >= w.log, View: n.view+slack >= w.log})
	}
	return s
}

func (w *world) has(id string) (at int, voter bool) {
	at = slices.IndexFunc(w.peers, func(p Peer) bool { return p.ID == id })
	return at, at >= 0 && w.peers[at].Voter
}

// upToDate counts the voters, and those that help to reach a quorum.
func (w *world) upToDate(peers []Peer) (voters, current int) {
	for _, p := range peers {
		if !p.Voter {
			continue
		}
		voters++
		if n := w.nodes[p.ID]; !n.dead && n.log+slack >= w.log {
			current++
		}
	}
	return voters, current
}

// act makes a change as Raft would. The leader may have chosen it for an earlier configuration.
func (w *world) act(t *rapid.T, c Change) {
	if c.Kind == None || c.Kind != Transfer && c.Index != w.index {
		return // fenced
	}
	at, voter := w.has(c.ID)
	after := slices.Clone(w.peers)
	switch c.Kind {
	case Add:
		if at >= 0 {
			t.Fatalf("%+v adds a member", c)
		}
		w.nodes[c.ID].log, w.nodes[c.ID].view = 0, 0 // what lay there belongs to no history
		after = append(after, Peer{ID: c.ID})
	case Promote:
		after[at].Voter = true
	case Remove:
		if c.ID == w.leader {
			t.Fatalf("%+v removes the leader", c)
		}
		after = slices.Delete(after, at, at+1)
	case Transfer:
		if n := w.nodes[c.ID]; voter && !n.dead && n.log+slack >= w.log {
			n.log = w.log // the old leader waits until its target has the whole log
			w.leader = c.ID
		}
		return
	}
	if voters, alive := w.alive(after); alive <= voters/2 {
		return // it would never be committed
	}
	w.peers = after
	w.index++
}

// alive counts the voters of a configuration and those that answer.
func (w *world) alive(peers []Peer) (voters, alive int) {
	for _, p := range peers {
		if p.Voter {
			voters++
			if !w.nodes[p.ID].dead {
				alive++
			}
		}
	}
	return voters, alive
}

// elect makes a live voter with the longest log the leader, if a majority of voters is alive.
func (w *world) elect(t *rapid.T) {
	w.leader = ""
	if voters, alive := w.alive(w.peers); alive <= voters/2 {
		return
	}
	most, best := 0, []string{}
	for _, p := range w.peers {
		n := w.nodes[p.ID]
		if !p.Voter || n.dead || n.log < most {
			continue
		}
		if n.log > most {
			most, best = n.log, nil
		}
		best = append(best, p.ID)
	}
	w.leader = rapid.SampledFrom(best).Draw(t, "leader")
	// Entries that only a minority had are lost; no majority confirmed them.
	w.log = most
	for _, n := range w.nodes {
		n.log, n.view = min(n.log, most), min(n.view, most)
	}
}

// TestHistories plays random lists, configurations, deaths and stale leaders. No change may take the majority of
// the voters that is up to date, and the changes must reach the list once all members are alive.
func TestHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		late := Change{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			id := rapid.SampledFrom(ids).Draw(t, "id")
			switch n := w.nodes[id]; rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				n.dead = !n.dead
				if n.dead && id == w.leader {
					w.elect(t)
				}
			case 1:
				w.list(t)
			case 2:
				if w.leader != "" { // the log grows
					w.log += 2
					w.nodes[w.leader].log, w.nodes[w.leader].view = w.log, w.log
				}
			case 3, 4, 5: // a member catches up
				if at, _ := w.has(id); at >= 0 && !n.dead {
					n.log = w.log
					n.view = rapid.IntRange(n.view, n.log).Draw(t, "view")
				}
			case 6: // an earlier decision arrives late
				w.act(t, late)
			case 7:
				w.elect(t)
			default:
				if w.leader == "" {
					w.elect(t)
				}
				if w.leader == "" {
					continue
				}
				c := Next(w.seen())
				late = c
				w.check(t, c)
			}
		}
		w.finish(t)
	})
}

// check makes a change and compares the up-to-date voters before and after it.
func (w *world) check(t *rapid.T, c Change) {
	voters, current := w.upToDate(w.peers)
	before := fmt.Sprintf("%+v", w.seen())
	w.act(t, c)
	if c.Kind == Promote || c.Kind == Remove {
		if at, _ := w.has(c.ID); (c.Kind == Promote) == (at < 0) {
			return // not committed
		}
	}
	after, still := w.upToDate(w.peers)
	if current > voters/2 && still <= after/2 {
		t.Fatalf("%s %s left %d of %d voters up to date; before: %s", c.Kind, c.ID, still, after, before)
	}
	if c.Kind == Remove {
		for _, m := range w.listed {
			if m.ID == c.ID {
				t.Fatalf("%+v removes a listed member; before: %s", c, before)
			}
		}
	}
}

// finish lets all members live and catch up, and expects the group to become its list.
func (w *world) finish(t *rapid.T) {
	for _, n := range w.nodes {
		n.dead = false
	}
	w.elect(t)
	for step := 0; ; step++ {
		for _, p := range w.peers {
			w.nodes[p.ID].log, w.nodes[p.ID].view = w.log, w.log
		}
		c := Next(w.seen())
		if c.Kind == None {
			break
		}
		if step > 4*len(ids) {
			t.Fatalf("after %d changes the next is %+v of %+v", step, c, w.seen())
		}
		w.check(t, c)
	}
	for _, p := range w.peers {
		if !p.Voter || !slices.ContainsFunc(w.listed, func(m Listed) bool { return m.ID == p.ID }) {
			t.Fatalf("the end is %+v", w.seen())
		}
	}
	if len(w.peers) != len(w.listed) || !slices.ContainsFunc(w.listed, func(m Listed) bool { return m.ID == w.leader }) {
		t.Fatalf("the end is %+v", w.seen())
	}
}
