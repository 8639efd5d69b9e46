// Package membership chooses the next change of a group's Raft configuration on the way to a list of members
// (ADR 0065). Next is a pure function: the leader calls it with what it knows, makes the one change, and calls it
// again. The package imports nothing of Corvo and reads no clock. Its caller is package engine.
package membership

import (
	"slices"
	"strings"
)

// Situation is the leader's knowledge at one moment.
type Situation struct {
	Leader string   // the leader, which calls Next
	Listed []Listed // the list of members; an empty list asks for no change
	Peers  []Peer   // the configuration that the leader has applied
	Index  uint64   // index of the configuration's entry; Next copies it into the Change
}

// Listed is a member that the group shall have, with a vote.
type Listed struct{ ID, Address string }

// Peer is a member of the configuration with its progress. The leader counts as alive and caught up.
type Peer struct {
	ID    string
	Voter bool
	Alive bool // it answered the leader's last probe
	Log   bool // its log has caught up with the leader's
	View  bool // its view has caught up, so that its lists answer if it leads
}

// Kind is a kind of change.
type Kind int

// The kinds of changes.
const (
	None     Kind = iota // nothing can or need be changed now
	Add                  // add ID as a learner, under Address
	Promote              // give the learner ID its vote
	Transfer             // transfer leadership to the voter ID
	Remove               // remove ID
)

func (k Kind) String() string { return [...]string{"none", "add", "promote", "transfer", "remove"}[k] }

// Change is one change of the configuration. It may be made only while the configuration is still the one at
// Index. A Transfer changes no configuration.
type Change struct {
	Kind        Kind
	ID, Address string
	Index       uint64
}

// Next returns the next change towards the list. The order of the changes keeps a majority of the voters up to date,
// unless voters die:
//
//  1. Add each listed member that is missing, as a learner.
//  2. Remove a learner that is not listed.
//  3. While a listed learner has caught up, remove a dead voter that is not listed, because the new member replaces
//     it and shall not enlarge the quorum.
//  4. Promote a listed learner that has caught up, if that makes the number of voters odd, if another learner can follow
//     at once, or if no other listed member lacks a vote. An even number of voters tolerates no more failures than the
//     odd number below, so the group does not stop there to wait for a learner that may never catch up.
//  5. If the leader is not listed, transfer leadership to a listed voter.
//  6. Remove a voter that is not listed, a dead one first.
//
// 5 and 6 wait until each listed member has its vote. 3, 4 and 6 are made only if a majority of the voters is
// up to date after the change, so a leader that is cut off changes no votes.
func Next(s Situation) Change {
	if len(s.Listed) == 0 {
		return Change{}
	}
	g := group{s}
	for _, rule := range []func() Change{g.add, g.removeLearner, g.removeDead, g.promote, g.transfer, g.removeVoter} {
		if c := rule(); c.Kind != None {
			c.Index = s.Index
			return c
		}
	}
	return Change{}
}

// group is a Situation with the questions that the rules ask.
type group struct{ Situation }

func (g group) listed(id string) bool {
	return slices.ContainsFunc(g.Listed, func(m Listed) bool { return m.ID == id })
}

// current reports whether a voter helps to reach a quorum now.
func (g group) current(p Peer) bool { return p.ID == g.Leader || p.Alive && p.Log }

// ready reports whether a member may get a vote or lead: it is current, and its view has caught up, so that
// its lists answer.
func (g group) ready(p Peer) bool { return g.current(p) && (p.ID == g.Leader || p.View) }

// readyLearners returns the listed learners that may be promoted.
func (g group) readyLearners() (ready []Peer) {
	for _, p := range g.Peers {
		if !p.Voter && g.listed(p.ID) && g.ready(p) {
			ready = append(ready, p)
		}
	}
	return ready
}

// missing returns the number of listed members without a vote.
func (g group) missing() (n int) {
	for _, m := range g.Listed {
		if !slices.ContainsFunc(g.Peers, func(p Peer) bool { return p.ID == m.ID && p.Voter }) {
			n++
		}
	}
	return n
}

// voters returns the number of voters and how many of them are up to date, both without the given member.
func (g group) voters(without string) (all, current int) {
	for _, p := range g.Peers {
		if !p.Voter || p.ID == without {
			continue
		}
		all++
		if g.current(p) {
			current++
		}
	}
	return all, current
}

// canRemove reports whether most voters that remain without id are up to date.
func (g group) canRemove(id string) bool {
	all, current := g.voters(id)
	return current > all/2
}

func (g group) add() Change {
	for _, m := range g.Listed {
		if !slices.ContainsFunc(g.Peers, func(p Peer) bool { return p.ID == m.ID }) {
			return Change{Kind: Add, ID: m.ID, Address: m.Address}
		}
	}
	return Change{}
}

func (g group) removeLearner() Change {
	for _, p := range g.Peers {
		if !p.Voter && !g.listed(p.ID) {
			return Change{Kind: Remove, ID: p.ID}
		}
	}
	return Change{}
}

func (g group) removeDead() Change {
	if len(g.readyLearners()) == 0 {
		return Change{}
	}
	for _, p := range g.leaving() {
		if !p.Alive && g.canRemove(p.ID) {
			return Change{Kind: Remove, ID: p.ID}
		}
	}
	return Change{}
}

func (g group) promote() Change {
	ready := g.readyLearners()
	if len(ready) == 0 {
		return Change{}
	}
	all, current := g.voters("")
	if current+1 <= (all+1)/2 {
		return Change{}
	}
	if odd := all%2 == 0; odd || len(ready) > 1 || g.missing() == 1 {
		return Change{Kind: Promote, ID: ready[0].ID}
	}
	return Change{}
}

func (g group) transfer() Change {
	if g.missing() > 0 || g.listed(g.Leader) {
		return Change{}
	}
	for _, p := range g.Peers {
		if p.Voter && g.listed(p.ID) && g.ready(p) {
			return Change{Kind: Transfer, ID: p.ID}
		}
	}
	return Change{}
}

func (g group) removeVoter() Change {
	if g.missing() > 0 {
		return Change{}
	}
	for _, p := range g.leaving() {
		if g.canRemove(p.ID) {
			return Change{Kind: Remove, ID: p.ID}
		}
	}
	return Change{}
}

// leaving returns the voters that are not listed, except the leader: the dead ones first, each kind by id.
func (g group) leaving() (all []Peer) {
	for _, p := range g.Peers {
		if p.Voter && !g.listed(p.ID) && p.ID != g.Leader {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Peer) int {
		switch {
		case a.Alive == b.Alive:
			return strings.Compare(a.ID, b.ID)
		case a.Alive:
			return 1
		}
		return -1
	})
	return all
}
