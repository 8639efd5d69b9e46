package replica

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// Transport reaches the other members. It must support pre-vote, so that a member that comes back from a
// partition does not depose a working leader.
type Transport interface {
	raft.Transport
	raft.WithPreVote
}

// raftTransport wraps the Transport for raft. It sends no entries once the replica has stopped, refuses the messages
// that a member must not handle while it joins, prepares the requests of candidates (see admitCandidate), and delivers the
// messages of AdvanceCommit together with those that arrive.
type raftTransport struct {
	Transport
	rpcs     chan raft.RPC
	join     *joinGate     // set before raft starts
	members  func() []Peer // Replica.Members; set before pump starts
	stopped  func() error  // the error that stopped the replica; nil while it runs
	advanced atomic.Uint64 // the newest index that AdvanceCommit has delivered
}

func newRaftTransport(t Transport, stopped func() error) *raftTransport {
	return &raftTransport{Transport: t, rpcs: make(chan raft.RPC), stopped: stopped}
}

// AppendEntries sends nothing once the replica has stopped, because the message might contain an entry that
// could not be read (see journal.GetLog).
func (w *raftTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := w.stopped(); err != nil {
		return err
	}
	return w.Transport.AppendEntries(id, target, args, resp)
}

// AppendEntriesPipeline returns a pipeline that also sends nothing once the replica has stopped.
func (w *raftTransport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
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

// Consumer returns the channel of the messages to raft.
func (w *raftTransport) Consumer() <-chan raft.RPC { return w.rpcs }

// SetHeartbeatHandler sets raft's function for heartbeats, which do not go through the Consumer.
func (w *raftTransport) SetHeartbeatHandler(handle func(raft.RPC)) {
	w.Transport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if err := w.join.refuse(rpc.Command); err != nil {
			rpc.Respond(nil, err)
			return
		}
		handle(rpc)
	})
}

// pump forwards arriving messages to raft until done is closed.
func (w *raftTransport) pump(done <-chan struct{}) {
	arriving := w.Transport.Consumer()
	for {
		select {
		case rpc := <-arriving:
			if err := w.join.refuse(rpc.Command); err != nil {
				rpc.Respond(nil, err)
				continue
			}
			admitCandidate(rpc.Command, w.members)
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

// AdvanceCommit makes this follower apply an entry that its leader has declared committed. Raft tells
// followers of a commit with the next entry or, if none comes, after CommitTimeout. A lone write through a
// follower, or a strong read on it, would wait that long. AdvanceCommit gives raft the same empty append that
// the leader would have sent, built from the leader's answer, and raft checks it like any other message. A
// shorter CommitTimeout was rejected because it keeps idle groups busy, and an extra message from the leader
// because it costs one for each write.
//
// This is as safe as a message from the leader, however late raft handles it:
//
//   - Commit. The leader has applied the entry, so it is committed for ever. Raft looks for an entry of this index
//     and term in the log, on the only goroutine that changes the log, and moves the commit index to exactly that
//     entry. Logs that share an entry share all entries before it, so raft applies only committed entries. If the log
//     lost the entry, or holds another one at that index, raft refuses the message.
//   - Term. The term of an entry is its leader's. Raft ignores the message once it knows a newer term. The message
//     cannot raise the term, because the term had this value when the message was built and never falls.
//   - Leader. Raft clears its leader at the start of each term. AdvanceCommit reads the leader after the term, so it
//     reads the only leader of that term, or the leader of a newer term, in which case raft ignores the message. This
//     member does not lead that term itself. A candidate whose election has not raised the term yet follows the
//     leader again, as it would after any late message.
//   - Log. The message has no entries, so raft neither appends nor truncates.
//   - Contact. The message counts as a sign of life, once for each index. That is true: the leader has just answered,
//     or has just sent the entry.
//
// The entry itself may not have arrived yet, because the leader needs only a quorum. AdvanceCommit waits for
// it until ctx ends. It does nothing in another term, or under another leader, because the message would then
// tell raft more than the commit.
func (r *Replica) AdvanceCommit(ctx context.Context, leader string, at entry.Position) {
	w := r.wrapped
	if w == nil || r.raft.CommitIndex() >= at.Index {
		return
	}
	if !r.awaitArrival(ctx, at.Index) || r.raft.CommitIndex() >= at.Index || r.machine.Applied().Index >= at.Index || r.raft.CurrentTerm() != at.Term {
		return
	}
	address, known := r.raft.LeaderWithID()
	if string(known) != leader || r.Leads() {
		return
	}
	for before := w.advanced.Load(); ; before = w.advanced.Load() {
		if before >= at.Index {
			return
		}
		if w.advanced.CompareAndSwap(before, at.Index) {
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

// awaitArrival returns true once the log holds the entry, or the machine has applied it, because the entry may come in
// a snapshot, and then the log never holds it. Raft may not know of the entry yet, but it will before it handles the
// message of AdvanceCommit.
func (r *Replica) awaitArrival(ctx context.Context, index uint64) bool {
	j := r.journal
	here := func() bool { return j.last.Load() >= index || r.machine.Applied().Index >= index }
	if here() {
		return true
	}
	w := j.appendWaiters.add(index)
	defer j.appendWaiters.drop(w)
	if here() {
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
