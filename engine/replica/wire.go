package replica

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// Transport reaches the other members. Without pre-vote a member that comes back
// from a partition would depose a leader that serves.
type Transport interface {
	raft.Transport
	raft.WithPreVote
}

// wire is the Transport as raft sees it: what arrives, and what Hasten puts in
// line with it.
type wire struct {
	Transport
	rpcs     chan raft.RPC
	stopped  func() error  // why the replica has stopped; nil while it has not
	hastened atomic.Uint64 // the newest index Hasten was asked for
}

func newWire(t Transport, stopped func() error) *wire {
	return &wire{Transport: t, rpcs: make(chan raft.RPC), stopped: stopped}
}

// AppendEntries sends nothing once the replica has stopped: what it would send may
// be an entry that could not be read (journal.GetLog).
func (w *wire) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := w.stopped(); err != nil {
		return err
	}
	return w.Transport.AppendEntries(id, target, args, resp)
}

// AppendEntriesPipeline is under the same rule.
func (w *wire) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := w.Transport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return &stoppable{p, w.stopped}, nil
}

type stoppable struct {
	raft.AppendPipeline
	stopped func() error
}

func (p *stoppable) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if err := p.stopped(); err != nil {
		return nil, err
	}
	return p.AppendPipeline.AppendEntries(args, resp)
}

// Consumer is where raft takes what has arrived.
func (w *wire) Consumer() <-chan raft.RPC { return w.rpcs }

// pump hands on what arrives until done is closed.
func (w *wire) pump(done <-chan struct{}) {
	arriving := w.Transport.Consumer()
	for {
		select {
		case rpc := <-arriving:
			select {
			case w.rpcs <- rpc:
			case <-done:
				rpc.Respond(nil, raft.ErrTransportShutdown)
				return
			}
		case <-done:
			return
		}
	}
}

// Hasten has this follower apply an entry that its leader has said is committed.
// Raft tells followers of a commit with the next entry or, when none comes, after
// CommitTimeout: a lone write by way of a follower, or a strong read on it, would
// wait that long. Here raft gets the empty append with which the leader would
// have told it, made of the leader's answer; it goes through all of raft's
// checks. To shorten CommitTimeout instead would keep idle groups busy, and a
// message more from the leader would cost it one for each write.
//
// Why that is as safe as the leader's own message, however late raft takes it:
//
//   - Commit. The leader has applied the entry, so it is committed, for ever. Raft
//     looks for an entry of this index and term in the log, in the goroutine that
//     alone changes the log, and moves the commit index to just that entry. Logs
//     that share an entry share all before it, so only what is committed is
//     applied. If the log lost the entry, or holds another there, raft refuses.
//   - Term. An entry's term is its leader's. Raft ignores the message once it knows
//     of a newer term, and it cannot raise the term, which had this value when the
//     message was made and never falls.
//   - Leader. What raft names as leader was set in the present term: a new term
//     begins without one. It is read after the term, so it is either the leader of
//     that term, of which there is one, or of a newer one, and then the message is
//     ignored. This member does not lead that term itself. As a candidate whose
//     election has not raised the term yet it returns to the leader, as it would at
//     any late message.
//   - Log. The message has no entries: nothing is appended, nothing cut.
//   - Contact. The message counts as a sign of life, once for each index: the leader
//     has just answered, or has just sent the entry.
//
// It may have to wait for the entry itself, since the leader needs only a quorum;
// ctx ends the wait. Nothing is done where it could tell raft anything but the
// commit: in another term, or of another leader.
func (r *Replica) Hasten(ctx context.Context, leader string, at entry.Position) {
	w := r.wire
	if w == nil || r.raft.CommitIndex() >= at.Index {
		return
	}
	if !r.awaitArrival(ctx, at.Index) || r.raft.CommitIndex() >= at.Index || r.raft.CurrentTerm() != at.Term {
		return
	}
	address, known := r.raft.LeaderWithID()
	if string(known) != leader || r.Leads() {
		return
	}
	for before := w.hastened.Load(); ; before = w.hastened.Load() {
		if before >= at.Index {
			return
		}
		if w.hastened.CompareAndSwap(before, at.Index) {
			break
		}
	}
	encoded := w.EncodePeer(known, address)
	rpc := raft.RPC{
		Command: &raft.AppendEntriesRequest{
			RPCHeader:    raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(known), Addr: encoded},
			Term:         at.Term,
			PrevLogEntry: at.Index, PrevLogTerm: at.Term, LeaderCommitIndex: at.Index,
		},
		RespChan: make(chan raft.RPCResponse, 1),
	}
	select {
	case w.rpcs <- rpc:
	case <-r.failed: // raft is shut down, or will be
	case <-r.closing:
	case <-ctx.Done():
	}
}

// awaitArrival returns true once the log holds the entry. Raft may not know yet:
// what Hasten tells it comes after.
func (r *Replica) awaitArrival(ctx context.Context, index uint64) bool {
	j := r.journal
	if j.last.Load() >= index {
		return true
	}
	w := j.arrived.add(index)
	defer j.arrived.drop(w)
	if j.last.Load() >= index {
		return true
	}
	select {
	case <-w.arrived:
		return true
	case <-r.failed:
	case <-r.closing:
	case <-ctx.Done():
	}
	return false
}
