package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// A member that joins with an empty directory may have been a voter of the group before: it left, its data was deleted,
// and the leader has added it again under the same ID. It has forgotten its term, its votes and the entries that it
// acknowledged. A leader or a candidate that was cut off before the member left still counts on all of them. So the
// member is limited until it knows as much as it may have forgotten (ADR 0093):
//
//   - It refuses all messages to raft until a leader has told it its position. The leader confirms with a quorum that
//     it leads, after it was asked. Its log then holds every entry that was committed before, and the position is the
//     last of them.
//   - Afterwards it refuses messages of leaders of earlier terms.
//   - It takes no part in elections until its log has reached the position. In particular it does not elect itself,
//     which raft would let it do while its log ends in an old configuration with this member as the only voter.

// Join limits a member that joined with an empty directory.
type Join struct {
	// At is the position of a leader from an earlier run; zero = no leader has told it yet.
	At entry.Position
	// Ask is called when a node sends as a leader while the position is not known. It must not block. It asks that node
	// for its position, records the answer durably and passes it to Replica.Join.
	Ask func(leader Peer)
}

// joinGate enforces Join. A nil gate refuses nothing.
type joinGate struct {
	ask   func(Peer)
	set   sync.Once
	known chan struct{}  // closed once at is set
	at    entry.Position // valid after known
	votes atomic.Bool    // the log has reached at
}

// newJoinGate returns the gate for a limited member, or nil if the log has reached the position already.
func (r *Replica) newJoinGate(j *Join) (*joinGate, error) {
	if j == nil {
		return nil, nil
	}
	g := &joinGate{ask: j.Ask, known: make(chan struct{})}
	if j.At == (entry.Position{}) {
		return g, nil
	}
	last, err := r.journal.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("last index of the log: %w", err)
	}
	if max(last, r.machine.Applied().Index) >= j.At.Index {
		return nil, nil
	}
	g.open(j.At)
	return g, nil
}

func (g *joinGate) open(at entry.Position) {
	g.set.Do(func() {
		g.at = at
		close(g.known)
	})
}

// position returns the position of the leader; ok is false while it is not known.
func (g *joinGate) position() (at entry.Position, ok bool) {
	select {
	case <-g.known:
		return g.at, true
	default:
		return at, false
	}
}

var (
	errJoining = errors.New("this member joins the group and follows no leader that has not confirmed its position")
	errNoVote  = errors.New("this member joins the group and does not vote yet")
)

// refuse returns the reason why a message must not reach raft, or nil.
func (g *joinGate) refuse(command any) error {
	if g == nil || g.votes.Load() {
		return nil
	}
	switch m := command.(type) {
	case *raft.AppendEntriesRequest:
		return g.refuseLeader(m.RPCHeader, m.Term)
	case *raft.InstallSnapshotRequest:
		return g.refuseLeader(m.RPCHeader, m.Term)
	}
	return errNoVote // a request for a vote, or to stand for election
}

// refuseLeader refuses a message that a leader has sent in a term, unless the position is known and the term is not
// earlier than the position's.
func (g *joinGate) refuseLeader(from raft.RPCHeader, term uint64) error {
	at, ok := g.position()
	if !ok {
		g.ask(Peer{ID: string(from.ID), Address: string(from.Addr)})
		return errJoining
	}
	if term < at.Term {
		return errJoining
	}
	return nil
}

// Join passes the position of a leader to a member that was opened with Config.Join. The first position counts. The
// caller has recorded it, so that a restart does not forget it.
func (r *Replica) Join(at entry.Position) { r.join.open(at) }

// Waits reports whether this member joined with an empty directory and no leader has told it its position.
func (r *Replica) Waits() bool {
	if r.join == nil {
		return false
	}
	_, known := r.join.position()
	return !known
}

// Votes reports whether this member takes part in elections if its configuration gives it a vote.
func (r *Replica) Votes() bool { return r.join == nil || r.join.votes.Load() }

// awaitVotes lets this member take part in elections once its log has reached the position.
func (r *Replica) awaitVotes(c Config) {
	select {
	case <-r.join.known:
	case <-r.failed:
		return
	case <-r.closing:
		return
	}
	if !r.awaitArrival(context.Background(), r.join.at.Index) {
		return
	}
	r.join.votes.Store(true)
	err := r.reload(func(now *raft.ReloadableConfig) { now.HeartbeatTimeout, now.ElectionTimeout = c.Heartbeat, c.Election })
	if err != nil {
		r.fail(fmt.Errorf("let a new member vote: %w", err))
	}
}
