package engine

import (
	"context"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
)

// Leader says whether this node leads the group and serves: its term's first op
// was applied. It may have been deposed without knowing yet: see Verify.
func (g *Group) Leader() bool {
	term, err := g.present()
	return err == nil && started(term)
}

func started(p *pipeline.Pipeline) bool {
	select {
	case <-p.Started():
		return true
	default:
		return false
	}
}

// ClockNs is the clock that this node's next entry would carry, in Unix
// nanoseconds; without leadership it is that of the last one applied.
func (g *Group) ClockNs() int64 {
	if term, err := g.present(); err == nil {
		return term.ClockNs()
	}
	return g.config.Machine.LastClock()
}

// Ready waits until Leader is true. It ends early when ctx does, and when the
// group fails or is closed.
func (g *Group) Ready(ctx context.Context) error {
	for {
		g.mu.Lock()
		term, changed, closed := g.term, g.changed, g.closed
		err := g.unavailable()
		g.mu.Unlock()
		switch {
		case closed || g.replica.Err() != nil:
			return outward(err)
		case term != nil && started(term):
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "the group has no leader yet on this node")
		}
	}
}

// Verify answers nil if the machine, read from now on, shows every change that
// was acknowledged before the call, by whichever leader. It costs a round to the
// group that concurrent calls share, and writes nothing.
func (g *Group) Verify(ctx context.Context) error {
	term, err := g.present()
	if err != nil {
		return outward(err)
	}
	// The term's first entry comes after all that earlier leaders acknowledged;
	// what this one acknowledges it has applied before.
	select {
	case <-term.Started():
	case <-term.Done():
		return outward(term.Err())
	case <-ctx.Done():
		return verifyEnded(ctx)
	}
	select {
	case err := <-g.replica.Verify():
		return outward(err)
	case <-ctx.Done():
		return verifyEnded(ctx)
	}
}

func verifyEnded(ctx context.Context) error {
	return api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "the request ended before leadership was confirmed")
}

// Status is where a group stands on this node.
type Status struct {
	Group       string
	Incarnation entry.Incarnation
	NodeID      string
	replica.Status
	BacklogOps   int    // ops waiting to be written
	BacklogBytes int64  // and their bytes
	Refused      uint64 // ops refused because the backlog was full, in all terms here
	// How long ops have waited for their entries, and entries from their append
	// until they were applied, in all terms of this node's leadership.
	QueueTime, ApplyTime pipeline.Distribution
}

// Status is a momentary view; its fields are read one after another.
func (g *Group) Status() (Status, error) {
	of, err := g.replica.Status()
	if err != nil {
		return Status{}, outward(err)
	}
	s := Status{
		Group: g.identity.Group, Incarnation: g.identity.Incarnation, NodeID: g.identity.NodeID, Status: of,
		Refused: g.stats.Refused.Load(), QueueTime: g.stats.QueueTime.Read(), ApplyTime: g.stats.ApplyTime.Read(),
	}
	if term, err := g.present(); err == nil {
		s.BacklogOps, s.BacklogBytes = term.Backlog()
	}
	return s, nil
}
