package engine

import (
	"context"
	"time"

	"github.com/corvo/corvo/engine/replica"
)

// MinVoters is how many voters the autopilot leaves: fewer than three stand no
// failure, and whoever wants that removes a member by hand.
const MinVoters = 3

// The rules are written out here rather than taken from raft-autopilot. What is
// hard about them, since when a member is dead, that library leaves to its user;
// it would ask each member for its state a second time beside the steward; and it
// removes all failed members at once where one at a time lets each quorum prove
// itself.

// pilot makes at most one change of membership by itself.
func (g *Group) pilot(ctx context.Context) {
	if g.config.Autopilot == nil {
		return
	}
	members, since := g.replica.AppliedMembers()
	promote, remove := g.config.Autopilot.decide(time.Now(), g.identity.NodeID, members, g.watches.copy())
	log := g.config.Logger.With("group", g.identity.Group)
	p := replica.Peer{ID: promote, Voter: true}
	for _, of := range members {
		if of.ID == promote || of.ID == remove {
			p.ID, p.Address = of.ID, of.Address
		}
	}
	if promote != "" {
		if err := g.replica.Put(p, since); err != nil {
			log.Info("a learner could not be given its vote: it is tried again", "member", p.ID, "error", err)
			return
		}
		log.Info("a learner has its vote", "member", p.ID)
	} else if remove != "" {
		if err := g.replica.Remove(remove, since); err != nil {
			log.Info("a dead member could not be removed: it is tried again", "member", remove, "error", err)
			return
		}
		log.Warn("a dead member was removed", "member", remove, "silent for", g.config.Autopilot.RemoveAfter)
		g.farewell(ctx, p) // it may live and only not answer
	}
}

// decide names a learner that has earned its vote or, if there is none, a member
// to remove; "" = nobody.
//
// A learner gets its vote when it has answered and kept up for StableAfter. A
// member that has been silent for RemoveAfter is removed when it has no vote; a
// voter only while those alive are a majority of all present voters, the dead
// included, and at least MinVoters remain. So a member cut off with a minority
// removes nobody, and members lost together are removed one by one, each time by
// a majority of those there were before.
func (a *Autopilot) decide(now time.Time, self string, members []replica.Peer, of map[string]watch) (promote, remove string) {
	stable := a.StableAfter
	if stable == 0 {
		stable = DefaultStableAfter
	}
	voters, alive := 0, 0
	for _, p := range members {
		w := of[p.ID]
		if p.Voter {
			voters++
			if p.ID == self || !w.heard.IsZero() && w.silent.IsZero() {
				alive++
			}
		} else if !w.steady.IsZero() && now.Sub(w.steady) >= stable {
			promote = p.ID
		}
	}
	if promote != "" || a.RemoveAfter == 0 {
		return promote, ""
	}
	for _, p := range members {
		w := of[p.ID]
		if p.ID == self || w.silent.IsZero() || now.Sub(w.silent) < a.RemoveAfter {
			continue
		}
		if !p.Voter || alive > voters/2 && voters-1 >= MinVoters {
			return "", p.ID
		}
	}
	return "", ""
}
