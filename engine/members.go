package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

// Member is one member of a group as its leader sees it; a follower knows only
// the first three.
type Member struct {
	ID      string
	Address string
	Voter   bool
	// LastContact is how long ago it answered the leader's question, asked each
	// second; negative = not since it leads. Lag is how many entries of the leader's
	// log it had not got then.
	LastContact time.Duration
	Lag         uint64
}

// Members is the group's membership as this node knows it, by ID.
func (g *Group) Members() []Member {
	known := g.replica.Members()
	last, leads := g.replica.Last(), g.replica.Leads()
	members := make([]Member, len(known))
	for i, p := range known {
		members[i] = Member{ID: p.ID, Address: p.Address, Voter: p.Voter, LastContact: -1}
		switch w, heard := g.watches.of(p.ID); {
		case p.ID == g.identity.NodeID:
			members[i].LastContact = 0
		case leads && heard:
			members[i].LastContact = time.Since(w.heard)
			members[i].Lag = w.lag
		case leads:
			members[i].Lag = last
		}
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members
}

// voters is how many members have a vote.
func (g *Group) voters() (n int) {
	for _, p := range g.replica.Members() {
		if p.Voter {
			n++
		}
	}
	return n
}

// member is one of the configuration that changes are based on, and the index of
// that; false for who is none.
func (g *Group) member(id string) (p replica.Peer, is bool, since uint64) {
	members, since := g.replica.AppliedMembers()
	for _, p := range members {
		if p.ID == id {
			return p, true, since
		}
	}
	return replica.Peer{}, false, since
}

// AddLearner makes a node a member without a vote, or tells the group the new
// address of one that is a member already. It is done by the leader, wherever it
// is asked; so are the other changes. The caller has seen to it that the node
// runs and has opened the group with Join, and that a node with an empty disk
// does not come under the name of a voter: that one is removed first.
func (g *Group) AddLearner(ctx context.Context, id, address string) error {
	return g.change(ctx, change{What: changeAdd, ID: id, Address: address})
}

// Promote gives a learner its vote, once it has all that is committed.
func (g *Group) Promote(ctx context.Context, id string) error {
	return g.change(ctx, change{What: changePromote, ID: id})
}

// Remove ends a membership. It is refused with STATE_CONFLICT where too few
// members that are alive would be left to go on; removing who is no member does
// nothing. A leader that is to remove itself hands leadership over first.
func (g *Group) Remove(ctx context.Context, id string) error {
	return g.change(ctx, change{What: changeRemove, ID: id})
}

// Transfer hands leadership to a voter; "" = to the one that is furthest. It
// returns when this node, or whichever led, has ceased to lead in favour of
// another.
func (g *Group) Transfer(ctx context.Context, to string) error {
	return g.change(ctx, change{What: changeTransfer, ID: to})
}

// change has the leader make a change. Each of them can be asked for again, and
// is, until a leader has answered. What a transfer "to whichever is furthest" has
// done shows in who leads: it is not asked for twice.
func (g *Group) change(ctx context.Context, c change) error {
	var first string
	return g.seek(ctx, func(leader replica.Peer) (bool, error) {
		if first == "" {
			first = leader.ID
		}
		if c.What == changeTransfer && (c.ID == leader.ID || c.ID == "" && leader.ID != first) {
			return true, nil
		}
		var err error
		if leader.ID == g.identity.NodeID {
			err = g.changeHere(ctx, c)
		} else {
			var request []byte
			if request, err = json.Marshal(c); err != nil {
				return true, err
			}
			_, err = g.call(ctx, leader, callChange, request)
		}
		return api.CodeOf(err) != api.LeaderUnavailable, err
	})
}

func (g *Group) answerChange(ctx context.Context, _ transport.Peer, request []byte) ([]byte, error) {
	var c change
	if err := json.Unmarshal(request, &c); err != nil {
		return nil, api.Errorf(api.Internal, "a change of membership cannot be read: %w", err)
	}
	return nil, g.changeHere(ctx, c)
}

// changeHere makes a change while this node leads.
func (g *Group) changeHere(ctx context.Context, c change) error {
	term, err := g.present()
	if err != nil {
		return err
	}
	if g.peers == nil && c.What != changeRemove {
		return api.Errorf(api.StateConflict, "the group is closed to others: this node has no transport")
	}
	select {
	case <-term.Started():
	case <-term.Done():
		return term.Err()
	case <-ctx.Done():
		return verifyEnded(ctx)
	}
	p, is, since := g.member(c.ID)
	switch c.What {
	case changeAdd:
		if is && p.Address == c.Address {
			return nil
		}
		return g.replica.Put(replica.Peer{ID: c.ID, Address: c.Address, Voter: is && p.Voter}, since)
	case changePromote:
		if !is {
			return api.Errorf(api.NotFound, "%s is not a member of the group: add it first", c.ID)
		}
		return g.promoteHere(ctx, p, since)
	case changeRemove:
		if !is {
			return nil
		}
		return g.removeHere(ctx, p, since)
	case changeTransfer:
		return g.transferHere(ctx, c.ID, p)
	}
	return api.Errorf(api.Unsupported, "the leader does not know the change %q", c.What)
}

// promoteHere waits until the learner has what is committed now: as a voter that
// lags it would count for the quorum and not help to reach it.
func (g *Group) promoteHere(ctx context.Context, p replica.Peer, since uint64) error {
	if p.Voter {
		return nil
	}
	goal := g.replica.Applied().Index
	for {
		s, err := g.ask(ctx, p)
		if err == nil && s.last >= goal {
			p.Voter = true
			return g.replica.Put(p, since)
		}
		if _, err := g.present(); err != nil {
			return err
		}
		select {
		case <-time.After(retryFirst):
		case <-ctx.Done():
			return api.Wrap(context.Cause(ctx), api.StateConflict, p.ID+" has not caught up yet: it stays a learner, promote it later")
		}
	}
}

func (g *Group) removeHere(ctx context.Context, p replica.Peer, since uint64) error {
	if p.ID == g.identity.NodeID {
		if err := g.handOver(ctx, nil); err != nil {
			return err
		}
		return errNotLeader() // the new leader is asked to remove this one
	}
	if p.Voter {
		g.probe(ctx)
		voters, alive := g.voters()-1, 0
		for _, other := range g.replica.Members() {
			if other.Voter && other.ID != p.ID && g.alive(other.ID) {
				alive++
			}
		}
		if alive <= voters/2 {
			return api.Errorf(api.StateConflict, "without %s, %d of %d voters would be alive, which is no majority: bring one back first", p.ID, alive, voters)
		}
	}
	if err := g.replica.Remove(p.ID, since); err != nil {
		return err
	}
	g.farewell(ctx, p)
	return nil
}

// farewell tells a member that it is none any longer. Raft stops talking to it
// with the entry that says so, which mostly does not arrive. One that cannot be
// reached is told when it comes back and asks for votes: see admit.
func (g *Group) farewell(ctx context.Context, p replica.Peer) {
	ctx, cancel := context.WithTimeout(ctx, stewardTick)
	defer cancel()
	_, since := g.replica.AppliedMembers()
	if _, err := g.call(ctx, p, callRemoved, fields(nil).number(since)); err != nil {
		g.config.Logger.Info("who is no member could not be told so", "group", g.identity.Group, "member", p.ID, "error", err)
	}
}

func (g *Group) answerRemoved(_ context.Context, _ transport.Peer, request []byte) ([]byte, error) {
	f := fields(request)
	index, err := f.next()
	if err != nil {
		return nil, api.Errorf(api.Internal, "%w", err)
	}
	g.removedAt.Store(index)
	return nil, nil
}

// removed says whether this member was told of its removal after the newest
// configuration that it has; if it is added again, it gets a newer one.
func (g *Group) removed() bool {
	_, since := g.replica.AppliedMembers()
	return since < g.removedAt.Load()
}

func (g *Group) transferHere(ctx context.Context, to string, p replica.Peer) error {
	switch {
	case to == g.identity.NodeID:
		return nil
	case to == "":
		return g.handOver(ctx, nil)
	case !p.Voter:
		return api.Errorf(api.StateConflict, "%s has no vote in the group: it cannot lead", to)
	}
	return g.yield(ctx, p)
}

// handOver lets the furthest voter lead that answers and fits; nil = all do.
func (g *Group) handOver(ctx context.Context, fits func(id string) bool) error {
	g.probe(ctx)
	var heir replica.Peer
	var most uint64
	for _, p := range g.replica.Members() {
		if !p.Voter || p.ID == g.identity.NodeID || !g.alive(p.ID) || fits != nil && !fits(p.ID) {
			continue
		}
		if w, _ := g.watches.of(p.ID); heir.ID == "" || w.stands.last > most {
			heir, most = p, w.stands.last
		}
	}
	if heir.ID == "" {
		return api.Errorf(api.StateConflict, "no other voter answers: leadership stays here")
	}
	return g.yield(ctx, heir)
}

// yield hands leadership to a voter and waits until another leads.
func (g *Group) yield(ctx context.Context, to replica.Peer) error {
	if err := g.replica.Transfer(ctx, to); err != nil {
		return err
	}
	for {
		g.mu.Lock()
		changed := g.changed
		g.mu.Unlock()
		if id := g.LeaderID(); id != "" && id != g.identity.NodeID {
			return nil
		}
		if g.replica.Leads() {
			return api.Errorf(api.LeaderUnavailable, "leadership came back from %s", to.ID)
		}
		select {
		case <-changed:
		case <-g.replica.Failed():
			return g.Err()
		case <-ctx.Done():
			return api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "leadership was given up, but no other leader is known yet")
		}
	}
}
