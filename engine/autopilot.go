package engine

import (
	"context"
	"time"

	"github.com/corvo/corvo/engine/replica"
)

// MinVoters is the least number of voters that the autopilot leaves when it removes one. Fewer than three
// voters survive no failure; an operator can still remove a member by hand.
const MinVoters = 3

// The rules are implemented here, because the library raft-autopilot was rejected. The caller of that library
// must find out since when a member has been dead, which is the hard part. The library would probe every
// member in addition to maintain. And it removes all failed members at once, whereas one removal at a time
// lets each new quorum prove itself.

// runAutopilot makes at most one membership change.
func (g *Group) runAutopilot(ctx context.Context) {
	if g.config.Autopilot == nil {
		return
	}
	members, since := g.replica.AppliedMembers()
	promote, remove := g.config.Autopilot.decide(time.Now(), g.identity.NodeID, members, g.contacts.copy())
	log := g.config.Logger.With("group", g.identity.Group)
	p := replica.Peer{ID: promote, Voter: true}
	for _, of := range members {
		if of.ID == promote || of.ID == remove {
			p.ID, p.Address = of.ID, of.Address
		}
	}
	if promote != "" {
		if err := g.replica.Put(p, since); err != nil {
			log.Info("a learner could not become a voter; the leader tries again", "member", p.ID, "error", err)
			return
		}
		log.Info("a learner became a voter", "member", p.ID)
	} else if remove != "" {
		if err := g.replica.Remove(remove, since); err != nil {
			log.Info("a dead member could not be removed; the leader tries again", "member", remove, "error", err)
			return
		}
		log.Warn("the leader removed a dead member", "member", remove, "silent_for", g.config.Autopilot.RemoveAfter)
		g.notifyRemoved(ctx, p) // it may be alive although it does not answer
	}
}

// decide returns a learner to promote or, if there is none, a member to remove; "" = none.
//
// A learner is promoted when it has answered and kept up for StableAfter. A member is removed when it has
// been silent for RemoveAfter, but a voter only while the live voters are a majority of all present voters,
// the dead included, and at least MinVoters remain. So a leader that is cut off with a minority removes no
// voter, and voters that were lost together are removed one by one, each by a majority of the voters present
// before its removal.
func (a *Autopilot) decide(now time.Time, self string, members []replica.Peer, of map[string]contact) (promote, remove string) {
	stable := a.StableAfter
	if stable == 0 {
		stable = DefaultStableAfter
	}
	voters, alive := 0, 0
	for _, p := range members {
		w := of[p.ID]
		if p.Voter {
			voters++
			if p.ID == self || !w.lastSeen.IsZero() && w.silentSince.IsZero() {
				alive++
			}
		} else if !w.steadySince.IsZero() && now.Sub(w.steadySince) >= stable {
			promote = p.ID
		}
	}
	if promote != "" || a.RemoveAfter == 0 {
		return promote, ""
	}
	for _, p := range members {
		w := of[p.ID]
		if p.ID == self || w.silentSince.IsZero() || now.Sub(w.silentSince) < a.RemoveAfter {
			continue
		}
		if !p.Voter || alive > voters/2 && voters-1 >= MinVoters {
			return "", p.ID
		}
	}
	return "", ""
}
