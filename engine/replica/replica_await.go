package replica

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/api"
)

// indexWaiters holds the goroutines that wait for an index to be reached. While there are none, reached costs
// one atomic read.
type indexWaiters struct {
	count   atomic.Int64 // number of waiters, for the check without a lock
	mu      sync.Mutex
	waiters []*waiter
}

type waiter struct {
	index   uint64
	arrived chan struct{}
}

func (a *indexWaiters) add(index uint64) *waiter {
	w := &waiter{index: index, arrived: make(chan struct{})}
	a.count.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiters = append(a.waiters, w)
	return w
}

// drop removes a waiter, unless reached has removed it.
func (a *indexWaiters) drop(w *waiter) {
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

// reached wakes the waiters for entries up to index. Each has its own channel, because with one channel for
// all, every entry would wake the waiters of all later ones.
func (a *indexWaiters) reached(index uint64) {
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

// Await returns nil once the machine has applied the entry. It returns VIEW_BEHIND if ctx ends first,
// UNHEALTHY if the replica stops, and LEADER_UNAVAILABLE if it is closed. Raft's own entries never reach the
// machine, so with the index of such an entry Await waits for a later one.
func (r *Replica) Await(ctx context.Context, index uint64) error {
	if r.machine.Applied().Index >= index {
		return nil
	}
	w := r.applyWaiters.add(index)
	defer r.applyWaiters.drop(w)
	// Look again, because an entry applied between the first look and the registration wakes nobody.
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
