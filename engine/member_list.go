package engine

import (
	"context"
	"slices"
	"time"

	"github.com/corvo/corvo/engine/membership"
	"github.com/corvo/corvo/engine/replica"
)

// followList makes at most one membership.Change towards the list of members, and reports whether it made
// one. Raft refuses a change that was chosen for an older configuration.
func (g *Group) followList(ctx context.Context, list []membership.Listed) (changed bool) {
	members, since := g.replica.AppliedMembers()
	c := membership.Next(g.situation(list, members, since))
	if c.Kind == membership.None {
		return false
	}
	p := replica.Peer{ID: c.ID, Address: c.Address}
	for _, m := range members {
		if m.ID == c.ID {
			p = m
		}
	}
	log := g.config.Logger.With("group", g.identity.Group, "change", c.Kind, "member", c.ID, "index", c.Index)
	if err := g.make(ctx, c, p); err != nil {
		log.Info("the group could not take a step towards its list of members; the leader tries again", "error", err)
		return false
	}
	log.Info("the group took a step towards its list of members")
	return true
}

// make makes change c. p is the member that c concerns, or the new one.
func (g *Group) make(ctx context.Context, c membership.Change, p replica.Peer) error {
	switch c.Kind {
	case membership.Add:
		// Without Learn the transport would keep the member's old address, and updateAddresses would write it
		// back.
		g.config.Transport.Learn(p.ID, p.Address)
		return g.replica.Put(p, c.Index)
	case membership.Promote:
		p.Voter = true
		return g.replica.Put(p, c.Index)
	case membership.Transfer:
		ctx, cancel := context.WithTimeout(ctx, transferTimeout)
		defer cancel()
		return g.transferTo(ctx, p)
	}
	if err := g.replica.Remove(p.ID, c.Index); err != nil {
		return err
	}
	g.notifyRemoved(ctx, p) // it may be alive
	return nil
}

// situation returns the leader's knowledge for membership.Next.
func (g *Group) situation(list []membership.Listed, members []replica.Peer, since uint64) membership.Situation {
	s := membership.Situation{Leader: g.identity.NodeID, Listed: list, Index: since}
	contacts := g.contacts.copy()
	for _, p := range members {
		w := contacts[p.ID]
		alive := p.ID == g.identity.NodeID || !w.lastSeen.IsZero() && w.silentSince.IsZero()
		s.Peers = append(s.Peers, membership.Peer{
			ID: p.ID, Voter: p.Voter, Alive: alive,
			Log: w.log, View: w.view,
		})
	}
	return s
}

// learns reports whether the group has a learner that may soon have caught up, because it answers, or has been silent only
// for a short time.
func (g *Group) learns(members []replica.Peer) bool {
	contacts := g.contacts.copy()
	return slices.ContainsFunc(members, func(p replica.Peer) bool {
		of := contacts[p.ID]
		return !p.Voter && (of.silentSince.IsZero() || time.Since(of.silentSince) < silentAfter)
	})
}

// list returns the list of members in the machine and a channel that is closed when a newer one is applied;
// both are nil without Config.List.
func (g *Group) list() (list []membership.Listed, changed <-chan struct{}) {
	if g.config.List == nil {
		return nil, nil
	}
	return g.config.List()
}

// view returns the index of the last entry that this member's view shows, or of the last applied one if there is no
// view.
func (g *Group) view() uint64 {
	if g.config.View == nil {
		return g.replica.Applied().Index
	}
	return g.config.View()
}

// MembersLevel returns the highest feature level that all members understand. It returns false unless this
// member leads and every other member has answered it in the present term.
func (g *Group) MembersLevel() (level uint32, ok bool) {
	level = g.config.MaxLevel
	for _, p := range g.replica.Members() {
		if p.ID == g.identity.NodeID {
			continue
		}
		w, seen := g.contacts.get(p.ID)
		if !seen || w.term != g.replica.Term() {
			return 0, false
		}
		level = min(level, w.progress.level)
	}
	return level, g.replica.Leads()
}
