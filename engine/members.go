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

// Member describes one member of a group as the leader sees it. On a follower, LastContact is -1 for the
// other members and Lag is 0.
type Member struct {
	ID      string
	Address string
	Voter   bool
	// LastContact is the time since the member last answered the leader's probe, which is sent about each
	// second; negative = it has not answered this leader yet. Lag is the number of entries of the leader's
	// log that the member lacked at its last answer, or the number of all entries if it has not answered.
	LastContact time.Duration
	Lag         uint64
}

// Members returns the group's members as this node knows them, sorted by ID.
func (g *Group) Members() []Member {
	known := g.replica.Members()
	last, leads := g.replica.Last(), g.replica.Leads()
	members := make([]Member, len(known))
	for i, p := range known {
		members[i] = Member{ID: p.ID, Address: p.Address, Voter: p.Voter, LastContact: -1}
		switch w, seen := g.contacts.get(p.ID); {
		case p.ID == g.identity.NodeID:
			members[i].LastContact = 0
		case leads && seen:
			members[i].LastContact = time.Since(w.lastSeen)
			members[i].Lag = w.lag
		case leads:
			members[i].Lag = last
		}
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members
}

// Configuration returns the members of the applied Raft configuration, sorted by ID, and the index of its entry. It
// returns none before this member has applied one. The members have only an ID, an address and a vote.
func (g *Group) Configuration() (members []Member, index uint64) {
	peers, index := g.replica.AppliedMembers()
	for _, p := range peers {
		members = append(members, Member{ID: p.ID, Address: p.Address, Voter: p.Voter})
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members, index
}

// Voter reports whether the configuration that this member has applied gives it a vote. A member gets its vote when it
// has caught up with the leader. A group decodes each configuration once for it, so that every request may ask.
func (g *Group) Voter() bool { return g.replica.Voter() }

// voters returns the number of members with a vote.
func (g *Group) voters() (n int) {
	for _, p := range g.replica.Members() {
		if p.Voter {
			n++
		}
	}
	return n
}

// member returns a member of the applied configuration and the index of that configuration. It returns false
// if id is not a member.
func (g *Group) member(id string) (p replica.Peer, is bool, since uint64) {
	members, since := g.replica.AppliedMembers()
	for _, p := range members {
		if p.ID == id {
			return p, true, since
		}
	}
	return replica.Peer{}, false, since
}

// AddLearner adds a node as a member without a vote, or records the new address of a member. Like the other
// changes, it can be called on any member; the leader makes the change. The caller must have started the node
// and opened the group on it with Join. If the node has an empty disk and the name of a voter, that voter
// must be removed first.
//
// AddLearner, Promote, Remove and Transfer return LEADER_UNAVAILABLE if ctx ends before a leader has
// confirmed the change. The change may then have been made, or may still be. In a group without a Transport,
// all but Remove return STATE_CONFLICT.
func (g *Group) AddLearner(ctx context.Context, id, address string) error {
	return g.change(ctx, change{What: changeAdd, ID: id, Address: address})
}

// Promote gives a learner its vote, once it has received the entries that the leader had applied at the call.
// It returns NOT_FOUND if the node is not a member. If ctx ends before the learner has caught up, Promote
// returns STATE_CONFLICT on the leader, and on another member usually LEADER_UNAVAILABLE.
func (g *Group) Promote(ctx context.Context, id string) error {
	return g.change(ctx, change{What: changePromote, ID: id})
}

// Remove removes a member. It returns STATE_CONFLICT if the member is a voter and the live voters that remain
// would be no majority. Removing a node that is not a member does nothing. A leader that is to remove itself
// transfers leadership first, and the new leader removes it; the error is STATE_CONFLICT if no other voter
// answers.
func (g *Group) Remove(ctx context.Context, id string) error {
	return g.change(ctx, change{What: changeRemove, ID: id})
}

// Transfer transfers leadership to the voter with ID to, or with "" to the most up-to-date voter. It returns
// once another member leads, or at once if that voter leads already. It returns STATE_CONFLICT if the ID is
// no voter's or no other voter answers.
func (g *Group) Transfer(ctx context.Context, to string) error {
	return g.change(ctx, change{What: changeTransfer, ID: to})
}

// change sends a change to the leader, and sends it again while the error is LEADER_UNAVAILABLE, because each
// change can be repeated. A transfer without a target is complete once the leader has changed, so it is not
// repeated after that.
func (g *Group) change(ctx context.Context, c change) error {
	var first string
	attempted := false
	err := g.withLeader(ctx, func(leader replica.Peer) (bool, error) {
		if first == "" {
			first = leader.ID
		}
		if c.What == changeTransfer && (c.ID == leader.ID || c.ID == "" && leader.ID != first) {
			return true, nil
		}
		var err error
		attempted = true
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
	if attempted && api.CodeOf(err) == api.LeaderUnavailable { // a later leader may commit the change
		unconfirmed := api.Wrap(err, api.LeaderUnavailable, "the request ended before a leader confirmed the change: it may have been made or may still be, look at the members and ask again")
		unconfirmed.RetryAfter = retryMost
		return unconfirmed
	}
	return err
}

func (g *Group) handleChange(ctx context.Context, _ transport.Peer, request []byte) ([]byte, error) {
	var c change
	if err := json.Unmarshal(request, &c); err != nil {
		return nil, api.Errorf(api.Internal, "a change of membership cannot be read: %w", err)
	}
	return nil, g.changeHere(ctx, c)
}

// changeHere makes a change on the leader.
func (g *Group) changeHere(ctx context.Context, c change) error {
	term, err := g.currentTerm()
	if err != nil {
		return err
	}
	if g.peers == nil && c.What != changeRemove {
		return errNoTransport()
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
		// Without Learn the transport would keep the member's old address, and updateAddresses would write it
		// back.
		g.config.Transport.Learn(c.ID, c.Address)
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

// promoteHere waits until the learner has received the entries applied here by now, because a voter that lags
// would count towards the quorum without helping to reach it.
func (g *Group) promoteHere(ctx context.Context, p replica.Peer, since uint64) error {
	if p.Voter {
		return nil
	}
	goal := g.replica.Applied().Index
	for {
		s, err := g.ask(ctx, p)
		if err == nil && s.holds(goal) {
			p.Voter = true
			return g.replica.Put(p, since)
		}
		if _, err := g.currentTerm(); err != nil {
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
		if err := g.transferToBest(ctx, nil); err != nil {
			return err
		}
		return errNotLeader() // the new leader removes this member
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
	g.notifyRemoved(ctx, p)
	return nil
}

// notifyRemoved tells a member that it was removed. Raft stops sending to the member with the entry that
// removes it, so the member usually does not receive that entry. A member that cannot be reached is notified
// when it returns and asks for votes (see admit).
func (g *Group) notifyRemoved(ctx context.Context, p replica.Peer) {
	ctx, cancel := context.WithTimeout(ctx, maintainInterval)
	defer cancel()
	_, since := g.replica.AppliedMembers()
	if _, err := g.call(ctx, p, callRemoved, fields(nil).number(since)); err != nil {
		g.config.Logger.Info("a removed member could not be notified", "group", g.identity.Group, "member", p.ID, "error", err)
	}
}

func (g *Group) handleRemoved(_ context.Context, _ transport.Peer, request []byte) ([]byte, error) {
	f := fields(request)
	index, err := f.next()
	if err != nil {
		return nil, api.Errorf(api.Internal, "%w", err)
	}
	g.removedAt.Store(index)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notifyChange() // requests that wait for a leader
	return nil, nil
}

// removed reports whether a leader told this member of its removal, in a configuration that is newer than the member's
// own or that the member has applied itself. A member that is added again receives a newer configuration, and removed
// is false again. If its data was deleted, removed is false from the start, although it knows old configurations only: a
// leader sends to members alone, so that a notice from before the position at which the member joined is outdated.
func (g *Group) removed() bool {
	told := g.removedAt.Load()
	if g.replica.Waits() || told <= g.joinedAt.Load() {
		return false
	}
	_, is, since := g.member(g.identity.NodeID)
	return since < told || !is
}

func (g *Group) transferHere(ctx context.Context, to string, p replica.Peer) error {
	switch {
	case to == g.identity.NodeID:
		return nil
	case to == "":
		return g.transferToBest(ctx, nil)
	case !p.Voter:
		return api.Errorf(api.StateConflict, "%s has no vote in the group: it cannot lead", to)
	}
	return g.transferTo(ctx, p)
}

// transferToBest transfers leadership to the most up-to-date live voter that fits accepts; a nil fits accepts
// every voter.
func (g *Group) transferToBest(ctx context.Context, fits func(id string) bool) error {
	g.probe(ctx)
	var best replica.Peer
	var most uint64
	for _, p := range g.replica.Members() {
		if !p.Voter || p.ID == g.identity.NodeID || !g.alive(p.ID) || fits != nil && !fits(p.ID) {
			continue
		}
		if w, _ := g.contacts.get(p.ID); best.ID == "" || w.progress.last > most {
			best, most = p, w.progress.last
		}
	}
	if best.ID == "" {
		return api.Errorf(api.StateConflict, "no other voter answers: leadership stays here")
	}
	return g.transferTo(ctx, best)
}

// transferTo transfers leadership to a voter and waits until another member leads.
func (g *Group) transferTo(ctx context.Context, to replica.Peer) error {
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
