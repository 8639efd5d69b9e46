package engine

import (
	"context"

	"github.com/corvo/corvo/engine/replica"
)

// join returns the limits of this member if it joined with an empty directory, or nil.
func (g *Group) join() *replica.Join {
	id := g.identity
	at := Position{Index: id.JoinIndex, Term: id.JoinTerm}
	g.joinedAt.Store(at.Index)
	if !id.Joined || id.Founded && at == (Position{}) {
		return nil
	}
	return &replica.Join{At: at, Ask: g.askPosition}
}

// askPosition implements replica.Join.Ask. It does nothing while it asks another node already, because the leader sends
// again.
func (g *Group) askPosition(leader replica.Peer) {
	if !g.joining.CompareAndSwap(false, true) {
		return
	}
	g.spawn(func() {
		defer g.joining.Store(false)
		select {
		case <-g.opened:
			g.joinAt(leader)
		case <-g.life.Done():
		}
	})
}

// joinAt asks a node for its read index and makes it the position at which this member joined. Only a leader that a
// quorum confirms after the question has a read index. Its log holds all entries that were committed before, among them
// all that this member may have acknowledged and forgotten.
func (g *Group) joinAt(leader replica.Peer) {
	ctx, cancel := context.WithTimeout(g.life, 2*g.config.Heartbeat)
	defer cancel()
	log := g.config.Logger.With("group", g.identity.Group, "leader", leader.ID)
	at, err := g.indexOf(ctx, leader)
	if err != nil {
		log.Debug("a node sends as the leader and does not confirm it; this member waits", "error", err)
		return
	}
	// The record comes first, because after a restart raft would follow any leader and vote for any candidate.
	if err := g.record(func(id *identity) { id.JoinIndex, id.JoinTerm = at.Index, at.Term }); err != nil {
		g.replica.Fail(err)
		return
	}
	g.joinedAt.Store(at.Index)
	g.replica.Join(at)
	log.Info("this member joins the group", "index", at.Index, "term", at.Term)
}

// record changes the record of a running group in group.json.
func (g *Group) record(change func(*identity)) error {
	g.recording.Lock()
	defer g.recording.Unlock()
	id, _, err := readIdentity(g.config.Dir)
	if err != nil {
		return err
	}
	change(&id)
	return id.save(g.config.Dir)
}
