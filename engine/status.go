package engine

import (
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
)

// Status describes a group on this node.
type Status struct {
	Group       string
	Incarnation entry.Incarnation
	NodeID      string
	replica.Status
	LeaderID     string   // the leader that this node knows, "" if it knows none
	Members      []Member // see Group.Members
	BacklogOps   int      // ops waiting to be put into an entry
	BacklogBytes int64    // their bytes
	Refused      uint64   // ops refused because the backlog was full, in all terms of this node
	Forwarded    uint64   // ops that this node forwarded, or kept until it knew a leader
	// QueueTime counts the time of ops from their proposal until their entry was appended, ApplyTime the time
	// of entries from their append until they were applied. Both cover all terms of this node's leadership.
	QueueTime, ApplyTime pipeline.Distribution
}

// Status returns the group's present status. It reads the fields one after another, so they may be of
// slightly different moments.
func (g *Group) Status() (Status, error) {
	of, err := g.replica.Status()
	if err != nil {
		return Status{}, toAPIError(err)
	}
	s := Status{
		Group: g.identity.Group, Incarnation: g.identity.Incarnation, NodeID: g.identity.NodeID, Status: of,
		LeaderID: g.LeaderID(), Members: g.Members(),
		Refused: g.stats.Refused.Load(), Forwarded: g.forwarding.sent(), QueueTime: g.stats.QueueTime.Read(), ApplyTime: g.stats.ApplyTime.Read(),
	}
	if g.removed() {
		s.State, s.Voter = replica.Removed, false
	}
	if term, err := g.currentTerm(); err == nil {
		s.BacklogOps, s.BacklogBytes = term.Backlog()
	}
	return s, nil
}

// Newest returns the position of the newest entry that this member has, committed or not.
func (g *Group) Newest() Position { return g.replica.Newest() }
