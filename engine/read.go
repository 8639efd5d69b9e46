package engine

import (
	"context"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

// Leader reports whether this node leads the group and serves, that is, has applied its term's first op. It
// may have been deposed without knowing it yet (see Verify).
func (g *Group) Leader() bool {
	term, err := g.currentTerm()
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

// ClockNs returns the clock that this node's next entry would carry, in Unix nanoseconds. On a node that does
// not lead, it returns the clock of the last applied entry.
func (g *Group) ClockNs() int64 {
	if term, err := g.currentTerm(); err == nil {
		return term.ClockNs()
	}
	return g.config.Machine.LastClock()
}

// Ready waits until this node can take writes: it leads and serves, or it is a member that reaches a leader
// and has a Codec for forwarding. Ready returns LEADER_UNAVAILABLE if ctx ends or the group is closed, and
// UNHEALTHY if the group fails.
func (g *Group) Ready(ctx context.Context) error {
	for {
		g.mu.Lock()
		term, changed, closed := g.term, g.changed, g.closed
		g.mu.Unlock()
		if err := g.over(closed); err != nil {
			return err
		}
		if term != nil && started(term) {
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

// Verify makes sure that a read of the machine shows every change that any leader acknowledged before the
// call. It costs one round to the voters, which concurrent calls share, and writes nothing. On a follower,
// Verify asks the leader for a position and waits until this node has applied that entry. It returns
// LEADER_UNAVAILABLE if no leader confirms its leadership before ctx ends, and VIEW_BEHIND if a follower has
// not caught up by then.
func (g *Group) Verify(ctx context.Context) error {
	term, err := g.currentTerm()
	if err == nil {
		err = g.verifyTerm(ctx, term)
	}
	if err == nil || g.peers == nil || ctx.Err() != nil || api.CodeOf(err) != api.LeaderUnavailable {
		return toAPIError(err)
	}
	return g.withLeader(ctx, func(leader replica.Peer) (bool, error) {
		err := g.verifyAt(ctx, leader)
		return api.CodeOf(err) != api.LeaderUnavailable, err
	})
}

func (g *Group) verifyAt(ctx context.Context, leader replica.Peer) error {
	if leader.ID == g.identity.NodeID {
		term, err := g.currentTerm()
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

// Await returns nil once this node has applied the entry at index, VIEW_BEHIND if ctx ends first, or the
// error of a failed or closed group.
func (g *Group) Await(ctx context.Context, index uint64) error {
	return toAPIError(g.replica.Await(ctx, index))
}

// verifyTerm confirms that this node still leads in the given term. Then the machine holds every acknowledged
// change, because the term's first entry comes after all entries that earlier leaders acknowledged, and this
// leader applies an entry before it acknowledges it.
func (g *Group) verifyTerm(ctx context.Context, term *pipeline.Pipeline) error {
	select {
	case <-term.Started():
	case <-term.Done():
		return toAPIError(term.Err())
	case <-ctx.Done():
		return verifyEnded(ctx)
	}
	if g.peers != nil && g.voters() > 1 {
		_, err := g.confirming.join(g.spawn, g.confirm).wait(ctx)
		if now, gone := g.currentTerm(); err == nil && (gone != nil || now != term) {
			// This node has left the term since, so the round may have confirmed a later term of this node.
			// Between the two terms another leader may have acknowledged entries after the position that
			// handleIndex noted.
			err = errUnconfirmed()
		}
		return toAPIError(err)
	}
	select {
	case err := <-g.replica.Verify():
		return toAPIError(err)
	case <-ctx.Done():
		return verifyEnded(ctx)
	}
}

// confirm asks the voters whether they know a term newer than this node's. A voter that knows none when it
// answers has not voted in one. So if a quorum knows none, no newer leader existed when they were asked.
//
// Raft's own VerifyLeader was rejected because it counts the answers of members without a vote: a leader cut
// off together with a learner would confirm itself. verifyTerm uses it only in a group with at most one
// voter, or without a transport.
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

// readIndex is the position that a follower must have applied before a strong read.
type readIndex struct {
	leader string
	at     Position
}

// askIndex asks the leader for a read index.
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
	read.leader = leader.ID
	read.at, err = g.indexOf(ctx, leader)
	return read, err
}

// indexOf asks a node for a read index, which it returns only if it leads.
func (g *Group) indexOf(ctx context.Context, leader replica.Peer) (at Position, err error) {
	data, err := g.call(ctx, leader, callIndex, nil)
	if err != nil {
		return at, err
	}
	f := fields(data)
	return at, f.numbers(&at.Index, &at.Term)
}

// handleIndex notes the applied position, then confirms that this node leads. The position includes every change
// that was acknowledged before the request, because a leader applies an entry before it acknowledges it.
func (g *Group) handleIndex(ctx context.Context, _ transport.Peer, _ []byte) ([]byte, error) {
	term, err := g.currentTerm()
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

// ask returns the progress of another member.
func (g *Group) ask(ctx context.Context, p replica.Peer) (progress, error) {
	data, err := g.call(ctx, p, callTerm, nil)
	if err != nil {
		return progress{}, err
	}
	return decodeProgress(data)
}

// handleTerm returns an error if the replica has stopped. After an answer, the leader would count this member
// as alive, and might remove a voter that the group needs. A joining member that knows no leader's position returns an
// error too, because it may have forgotten a newer term, and confirm would count its answer.
func (g *Group) handleTerm(context.Context, transport.Peer, []byte) ([]byte, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	if g.replica.Waits() {
		return nil, api.Errorf(api.LeaderUnavailable, "this member joins the group and confirms no leader yet")
	}
	// Read the term last, because confirm takes it for the newest term that this member knew when it
	// answered.
	s := progress{last: g.replica.Last(), applied: g.replica.Applied().Index, view: g.view(), level: g.config.MaxLevel, joining: !g.replica.Votes()}
	s.term = g.replica.Term()
	return s.encode(), nil
}

func verifyEnded(ctx context.Context) error {
	return api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "the request ended before leadership was confirmed")
}
