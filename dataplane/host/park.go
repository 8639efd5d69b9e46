package host

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/api"
)

// MaxParked bounds the polls waiting in one namespace; each holds a goroutine and
// a connection.
const MaxParked = 100_000

// lot is where the polls of one namespace wait until a queue of theirs has
// something for them. It lives outside the cell, so that a namespace whose
// workers all wait can sleep.
//
// mu guards waiting and every waiter's elements and woken mark. It is taken by
// the applying goroutine, so nothing slow happens under it.
type lot struct {
	mu      sync.Mutex
	waiting map[string]*list.List // queue -> its *waiters, longest waiting first
	count   atomic.Int64          // waiters: lets wake return without the lock
	refused atomic.Uint64         // polls that found the lot full
}

// waiter is one parked poll; it stands in the list of each queue it listens to.
type waiter struct {
	queues   []string
	elements []*list.Element
	wake     chan struct{} // closed once, under lot.mu
	woken    bool
}

func newLot() *lot { return &lot{waiting: make(map[string]*list.List)} }

// park waits until one of the queues may have a job, or ctx ends. ready is asked
// after the poll has been registered, so that what arrives in between is either
// seen by it or wakes it. A poll that is woken and cannot use it (ctx ended in
// the same moment) hands the wake on.
func (l *lot) park(ctx context.Context, queues []string, ready func([]string) bool) error {
	w, err := l.register(queues)
	if err != nil {
		return err
	}
	if ready(queues) {
		l.leave(w)
		return nil
	}
	select {
	case <-w.wake:
		return nil
	case <-ctx.Done():
	}
	if l.leave(w) {
		for _, q := range queues {
			if ready([]string{q}) {
				l.wake(q, 1)
			}
		}
	}
	return ctx.Err()
}

func (l *lot) register(queues []string) (*waiter, error) {
	w := &waiter{queues: queues, elements: make([]*list.Element, len(queues)), wake: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count.Load() >= MaxParked {
		l.refused.Add(1)
		return nil, api.Errorf(api.Overloaded, "%d polls are waiting here already, which is the most; try again later or use fewer workers", MaxParked)
	}
	for i, q := range queues {
		line := l.waiting[q]
		if line == nil {
			line = list.New()
			l.waiting[q] = line
		}
		w.elements[i] = line.PushBack(w)
	}
	l.count.Add(1)
	return w, nil
}

// leave takes a waiter out and reports whether it had been woken already.
func (l *lot) leave(w *waiter) (woken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.woken {
		return true
	}
	l.remove(w)
	return false
}

// wake wakes up to n polls of a queue, the longest waiting first.
func (l *lot) wake(queue string, n int) {
	if l.count.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.waiting[queue]
	for ; n > 0 && line != nil && line.Len() > 0; n-- {
		w := line.Front().Value.(*waiter)
		w.woken = true
		l.remove(w)
		close(w.wake)
	}
}

// remove takes the waiter out of all its lines; the caller holds mu.
func (l *lot) remove(w *waiter) {
	for i, q := range w.queues {
		line := l.waiting[q]
		line.Remove(w.elements[i])
		if line.Len() == 0 {
			delete(l.waiting, q)
		}
	}
	l.count.Add(-1)
}
