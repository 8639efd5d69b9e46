package engine

import (
	"context"
	"sync"
)

// sharedCall coalesces concurrent requests into one call to other members. Requests that arrive during a call
// share the next one, because only a call that starts after a request can answer it.
type sharedCall[T any] struct {
	mu   sync.Mutex
	next *callResult[T]
	busy bool // a goroutine is in serve
}

// callResult is the result of one call. Its fields are read once done is closed.
type callResult[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// join returns the pending result of the next call to start. If no goroutine serves the calls, join starts
// one with spawn. If spawn returns false, the group has ended and the result is an error.
func (r *sharedCall[T]) join(spawn func(func()) bool, ask func() (T, error)) *callResult[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &callResult[T]{done: make(chan struct{})}
	}
	joined := r.next
	if !r.busy {
		r.busy = spawn(func() { r.serve(ask) })
		if !r.busy {
			joined.err = errClosed()
			close(joined.done)
			r.next = nil
		}
	}
	return joined
}

func (r *sharedCall[T]) serve(ask func() (T, error)) {
	for {
		r.mu.Lock()
		now := r.next
		r.next, r.busy = nil, now != nil
		r.mu.Unlock()
		if now == nil {
			return
		}
		now.value, now.err = ask()
		close(now.done)
	}
}

// wait returns the result of the call, or an error if ctx ends first.
func (t *callResult[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-t.done:
		return t.value, t.err
	case <-ctx.Done():
		var none T
		return none, verifyEnded(ctx)
	}
}
