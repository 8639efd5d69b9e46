package replica

import (
	"errors"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// Append hands an encoded entry to raft, which applies it only if it is appended in the given term. Append
// does not wait for the commit.
func (r *Replica) Append(term uint64, encoded []byte) *Future {
	if len(encoded) > entry.MaxBytes { // it could not be read back, nor sent to a follower
		return &Future{err: api.Errorf(api.Internal, "an entry of %d bytes is more than the %d of the log: nothing was written", len(encoded), entry.MaxBytes)}
	}
	if err := r.admit(); err != nil {
		return &Future{err: err}
	}
	return &Future{r: r, raft: r.raft.ApplyLog(raft.Log{Data: encoded, Extensions: fence(term)}, 0)}
}

// Future waits for the result of one Append. Wait must be called exactly once.
type Future struct {
	r    *Replica
	raft raft.ApplyFuture
	err  error // when nothing was handed to raft
}

// Wait blocks until the entry was applied and returns the machine's results, or an *api.Error: UNHEALTHY
// after the replica has stopped; INTERNAL if the entry is too large; LEADER_UNAVAILABLE if the replica does
// not lead or is closing (nothing was written), or if it lost leadership while the entry was being replicated
// (the error wraps ErrUnknown).
func (f *Future) Wait() ([]any, entry.Position, error) {
	if f.err != nil {
		return nil, entry.Position{}, f.err
	}
	defer f.r.inflight.leave()
	if err := f.raft.Error(); err != nil {
		return nil, entry.Position{}, f.r.callerError(err)
	}
	out := f.raft.Response().(*outcome)
	if out.err != nil {
		return nil, entry.Position{}, out.err
	}
	return out.results, out.at, nil
}

// callerError converts an error of raft's into the error for the caller.
func (r *Replica) callerError(err error) error {
	switch {
	case r.Err() != nil:
		return r.Unhealthy()
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return errNotLeader()
	case errors.Is(err, raft.ErrEnqueueTimeout): // only a change of membership waits with a limit
		return api.Wrap(err, api.LeaderUnavailable, "another change of the group's membership is still in progress: nothing was written, try again")
	}
	return api.Wrap(errors.Join(ErrUnknown, err), api.LeaderUnavailable, "leadership changed while the request was being written: its outcome is unknown, repeat it with the same idempotency key")
}

// ErrUnknown is wrapped by errors after which the requested change may have been made, or may still be made.
var ErrUnknown = errors.New("the outcome is unknown")

func errNotLeader() error {
	return api.Errorf(api.LeaderUnavailable, "this replica does not lead the group: nothing was written, ask the leader")
}

// inflight counts the requests that raft has not answered yet. Raft forgets its futures when it is shut down,
// so the replica shuts raft down only when the count is zero.
type inflight struct {
	mu     sync.Mutex
	count  int
	closed bool
	idle   sync.Cond // uses mu
}

// enter adds a request. It returns false once close was called.
func (f *inflight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.count++
	return true
}

func (f *inflight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count--; f.count == 0 {
		f.idle.Broadcast()
	}
}

// close refuses further requests and waits until those in flight have been answered.
func (f *inflight) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for f.count > 0 {
		f.idle.Wait()
	}
}

func (r *Replica) admit() error {
	if r.Err() != nil {
		return r.Unhealthy()
	}
	if !r.inflight.enter() {
		return api.Errorf(api.LeaderUnavailable, "this replica is shutting down: nothing was written")
	}
	return nil
}
