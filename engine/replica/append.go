package replica

import (
	"errors"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// Append hands an encoded entry to raft, to be applied in the given term only.
// It does not wait for the commit.
func (r *Replica) Append(term uint64, encoded []byte) *Future {
	if err := r.admit(); err != nil {
		return &Future{err: err}
	}
	return &Future{r: r, raft: r.raft.ApplyLog(raft.Log{Data: encoded, Extensions: fence(term)}, 0)}
}

// Future is the outcome of one Append. Wait must be called exactly once.
type Future struct {
	r    *Replica
	raft raft.ApplyFuture
	err  error // when nothing was handed to raft
}

// Wait blocks until the entry was applied and answers the machine's results, or
// an *api.Error: UNHEALTHY after the replica has stopped, LEADER_UNAVAILABLE
// when it does not lead (nothing was written) or has ceased to while the entry
// was on its way (the outcome is unknown).
func (f *Future) Wait() ([]any, entry.Position, error) {
	if f.err != nil {
		return nil, entry.Position{}, f.err
	}
	defer f.r.flying.leave()
	if err := f.raft.Error(); err != nil {
		return nil, entry.Position{}, f.r.answer(err)
	}
	out := f.raft.Response().(*outcome)
	if out.err != nil {
		return nil, entry.Position{}, out.err
	}
	return out.results, out.at, nil
}

// answer is what a caller gets for an error of raft's.
func (r *Replica) answer(err error) error {
	switch {
	case r.Err() != nil:
		return r.Unhealthy()
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return errNotLeader()
	}
	return api.Wrap(errors.Join(ErrUnknown, err), api.LeaderUnavailable, "leadership changed while the request was being written: its outcome is unknown, repeat it with the same idempotency key")
}

// ErrUnknown is the cause of errors after which what was asked for may have been
// done, or still be done.
var ErrUnknown = errors.New("the outcome is unknown")

func errNotLeader() error {
	return api.Errorf(api.LeaderUnavailable, "this replica does not lead the group: nothing was written, ask the leader")
}

// flights counts the entries handed to raft and not yet answered. Raft forgets
// futures when it is shut down, so it is shut down only when there are none.
type flights struct {
	mu     sync.Mutex
	count  int
	closed bool
	landed sync.Cond // uses mu
}

// enter counts one more; false when no more are let in.
func (f *flights) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.count++
	return true
}

func (f *flights) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count--; f.count == 0 {
		f.landed.Broadcast()
	}
}

// close lets no more in and waits for those under way.
func (f *flights) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for f.count > 0 {
		f.landed.Wait()
	}
}

func (r *Replica) admit() error {
	if r.Err() != nil {
		return r.Unhealthy()
	}
	if !r.flying.enter() {
		return api.Errorf(api.LeaderUnavailable, "this replica is shutting down: nothing was written")
	}
	return nil
}
