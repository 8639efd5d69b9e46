package replica

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/api"
)

// awaiting are those who wait for an entry to be applied. While nobody does, an
// entry costs them one atomic read.
type awaiting struct {
	count   atomic.Int64 // of waiters, as the apply path reads it
	mu      sync.Mutex
	waiters []*waiter
}

type waiter struct {
	index   uint64
	arrived chan struct{}
}

func (a *awaiting) add(index uint64) *waiter {
	w := &waiter{index: index, arrived: make(chan struct{})}
	a.count.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiters = append(a.waiters, w)
	return w
}

// drop forgets a waiter, if it has not arrived: reached has forgotten it then.
func (a *awaiting) drop(w *waiter) {
	select {
	case <-w.arrived:
		return
	default:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.waiters, w); i >= 0 {
		a.waiters = slices.Delete(a.waiters, i, i+1)
		a.count.Add(-1)
	}
}

// reached wakes those whose entry the machine now holds. Each is woken once and
// only for its own entry: with one channel for all, every entry would wake the
// waiters of all later ones.
func (a *awaiting) reached(index uint64) {
	if a.count.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	later := a.waiters[:0]
	for _, w := range a.waiters {
		if w.index <= index {
			close(w.arrived)
			a.count.Add(-1)
		} else {
			later = append(later, w)
		}
	}
	clear(a.waiters[len(later):])
	a.waiters = later
}

// Await returns when the machine has applied the entry. The index must be one
// that a machine has reported: raft's own entries never arrive in it.
func (r *Replica) Await(ctx context.Context, index uint64) error {
	if r.machine.Applied().Index >= index {
		return nil
	}
	w := r.awaiting.add(index)
	defer r.awaiting.drop(w)
	// Applied between the first look and the registration, it would wake nobody.
	if r.machine.Applied().Index >= index {
		return nil
	}
	select {
	case <-w.arrived:
		return nil
	case <-r.failed:
		return r.Unhealthy()
	case <-r.closing:
		return api.Errorf(api.LeaderUnavailable, "this replica is shutting down")
	case <-ctx.Done():
		return api.Wrap(context.Cause(ctx), api.ViewBehind, "this node has not caught up with the group yet: repeat the request, or ask the leader")
	}
}
