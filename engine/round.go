package engine

import (
	"context"
	"sync"
)

// round shares one question to other members among all who ask: those who come
// while one is under way share the next, which begins after they came.
type round[T any] struct {
	mu   sync.Mutex
	next *turn[T]
	busy bool // somebody is in serve
}

// turn is one asking of the question. Its fields are read once done is closed.
type turn[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// join answers the turn that begins after the call. The first who joins has spawn
// run it, and those that follow; false of spawn is an end of all asking.
func (r *round[T]) join(spawn func(func()) bool, ask func() (T, error)) *turn[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &turn[T]{done: make(chan struct{})}
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

func (r *round[T]) serve(ask func() (T, error)) {
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

// wait is the turn's answer, unless ctx ends first.
func (t *turn[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-t.done:
		return t.value, t.err
	case <-ctx.Done():
		var none T
		return none, verifyEnded(ctx)
	}
}
