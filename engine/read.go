package engine

import (
	"context"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
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

// Ready waits until this node can take writes: it leads and serves, or it is a
// member that reaches a leader and has a Codec to forward with. It ends early when
// ctx does, and when the group fails or is closed.
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
		var paused <-chan time.Time
		if id, address := g.replica.Leader(); term == nil && id != "" && g.peers != nil && g.config.Codec != nil && g.replica.Configured() {
			if _, err := g.ask(ctx, replica.Peer{ID: id, Address: address}); err == nil {
				return nil
			}
			paused = time.After(retryMost)
		}
		select {
		case <-changed:
		case <-paused:
		case <-ctx.Done():
			return api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "the group has no leader yet that this node can reach")
		}
	}
}

// Verify answers nil if the machine, read from now on, shows every change that
// was acknowledged before the call, by whichever leader. It costs a round to the
// group that concurrent calls share, and writes nothing. A follower asks the
// leader how far the group is, and waits until it is as far.
func (g *Group) Verify(ctx context.Context) error {
	term, err := g.present()
	if err == nil {
		err = g.verifyTerm(ctx, term)
	}
	if err == nil || g.peers == nil || ctx.Err() != nil || api.CodeOf(err) != api.LeaderUnavailable {
		return outward(err)
	}
	return g.seek(ctx, func(leader replica.Peer) (bool, error) {
		err := g.verifyAt(ctx, leader)
		return api.CodeOf(err) != api.LeaderUnavailable, err
	})
}

func (g *Group) verifyAt(ctx context.Context, leader replica.Peer) error {
	if leader.ID == g.identity.NodeID {
		term, err := g.present()
		if err != nil {
			return err
		}
		return g.verifyTerm(ctx, term)
	}
	read, err := g.following.join(g.spawn, g.askIndex).wait(ctx)
	if err != nil {
		return err
	}
	g.replica.AdvanceCommit(ctx, read.leader, read.at)
	return g.Await(ctx, read.at.Index)
}

// Await returns when this node has applied the entry.
func (g *Group) Await(ctx context.Context, index uint64) error {
	return outward(g.replica.Await(ctx, index))
}

// verifyTerm confirms that no other term has begun. The term's first entry comes
// after all that earlier leaders acknowledged; what this one acknowledges it has
// applied before.
func (g *Group) verifyTerm(ctx context.Context, term *pipeline.Pipeline) error {
	select {
	case <-term.Started():
	case <-term.Done():
		return outward(term.Err())
	case <-ctx.Done():
		return verifyEnded(ctx)
	}
	if g.peers != nil && g.voters() > 1 {
		_, err := g.confirming.join(g.spawn, g.confirm).wait(ctx)
		if now, gone := g.present(); err == nil && (gone != nil || now != term) {
			// A later term of this node was confirmed. Another may have led in between, and
			// acknowledged what is not in a position noted before.
			err = errUnconfirmed()
		}
		return outward(err)
	}
	select {
	case err := <-g.replica.Verify():
		return outward(err)
	case <-ctx.Done():
		return verifyEnded(ctx)
	}
}

// confirm asks the voters whether they know of a newer term than the one this
// node leads in. One that does not when it answers has not voted in any, so if a
// quorum does not, there was no newer leader when they were asked.
//
// Raft's own VerifyLeader is not used: it counts the answers of members without a
// vote. A leader cut off with a learner would confirm itself.
func (g *Group) confirm() (struct{}, error) {
	ctx, cancel := context.WithTimeout(g.life, g.config.Heartbeat)
	defer cancel()
	g.mu.Lock()
	term, number := g.term, g.number
	g.mu.Unlock()
	if term == nil || !started(term) {
		return struct{}{}, errNotLeader()
	}
	members := g.replica.Members()
	voters, asked := 0, 0
	answers := make(chan bool, len(members))
	for _, p := range members {
		if p.Voter {
			voters++
		}
		if !p.Voter || p.ID == g.identity.NodeID {
			continue
		}
		asked++
		if !g.spawn(func() {
			s, err := g.ask(ctx, p)
			answers <- err == nil && s.term <= number
		}) {
			return struct{}{}, errClosed()
		}
	}
	agree := voters - asked // this node, if it has a vote
	for range asked {
		if agree > voters/2 {
			break
		}
		if <-answers {
			agree++
		}
	}
	if agree <= voters/2 || !g.replica.Leads() || g.replica.Term() != number {
		return struct{}{}, errUnconfirmed()
	}
	return struct{}{}, nil
}

func errUnconfirmed() error {
	err := api.Errorf(api.LeaderUnavailable, "too few members confirm that this node leads the group: ask again")
	err.RetryAfter = pipeline.MinRetryAfter
	return err
}

// readIndex is what a strong read on a follower has to show.
type readIndex struct {
	leader string
	at     Position
}

// askIndex asks the leader for it.
func (g *Group) askIndex() (read readIndex, err error) {
	ctx, cancel := context.WithTimeout(g.life, 2*g.config.Heartbeat)
	defer cancel()
	leader, _, err := g.leader()
	if err != nil {
		return read, err
	}
	if leader.ID == "" || leader.ID == g.identity.NodeID {
		return read, errNotLeader()
	}
	data, err := g.call(ctx, leader, callIndex, nil)
	if err != nil {
		return read, err
	}
	read.leader = leader.ID
	f := fields(data)
	return read, f.numbers(&read.at.Index, &read.at.Term)
}

// answerIndex takes the position before it makes sure that this node leads: what
// was acknowledged before the question is in it.
func (g *Group) answerIndex(ctx context.Context, _ transport.Peer, _ []byte) ([]byte, error) {
	term, err := g.present()
	if err != nil {
		return nil, err
	}
	select {
	case <-term.Started():
	case <-term.Done():
		return nil, term.Err()
	case <-ctx.Done():
		return nil, verifyEnded(ctx)
	}
	at := g.replica.Applied()
	if err := g.verifyTerm(ctx, term); err != nil {
		return nil, err
	}
	return fields(nil).number(at.Index).number(at.Term), nil
}

// ask is where another member stands.
func (g *Group) ask(ctx context.Context, p replica.Peer) (standing, error) {
	data, err := g.call(ctx, p, callTerm, nil)
	if err != nil {
		return standing{}, err
	}
	return decodeStanding(data)
}

// answerTerm refuses to speak for a replica that has stopped: it would count as
// alive, and be left a vote that the group needs.
func (g *Group) answerTerm(context.Context, transport.Peer, []byte) ([]byte, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	// The term is read last: it is what the answer is trusted for.
	s := standing{last: g.replica.Last(), applied: g.replica.Applied().Index}
	s.term = g.replica.Term()
	return s.encode(), nil
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
	LeaderID     string   // the member this node takes for the leader, "" = it knows of none
	Members      []Member // see Group.Members
	BacklogOps   int      // ops waiting to be written
	BacklogBytes int64    // and their bytes
	Refused      uint64   // ops refused because the backlog was full, in all terms here
	Forwarded    uint64   // ops sent to the leader, or to whoever was thought to lead
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
		LeaderID: g.LeaderID(), Members: g.Members(),
		Refused: g.stats.Refused.Load(), Forwarded: g.forwards.sent(), QueueTime: g.stats.QueueTime.Read(), ApplyTime: g.stats.ApplyTime.Read(),
	}
	if g.removed() {
		s.State, s.Voter = replica.Removed, false
	}
	if term, err := g.present(); err == nil {
		s.BacklogOps, s.BacklogBytes = term.Backlog()
	}
	return s, nil
}
