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
// mu guards waiting, doubt, gone and every waiter's elements and woken mark. It
// is taken by the applying goroutine, so nothing slow happens under it.
type lot struct {
	mu      sync.Mutex
	waiting map[string]*list.List // queue -> its *waiters, longest waiting first
	doubt   chan struct{}         // closed, and replaced, when every poll must ask whether it may wait
	gone    error                 // what polls are told once the namespace closes
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

func newLot() *lot {
	return &lot{waiting: make(map[string]*list.List), doubt: make(chan struct{})}
}

// park waits until one of the queues may have a job, or ctx ends, or check
// refuses. ready and check are asked after the poll has been registered, so that
// what happens in between is either seen by them or wakes it. A poll that is woken
// and cannot use it (its end came in the same moment) hands the wake on.
func (l *lot) park(ctx context.Context, queues []string, ready func([]string) bool, check func() error) error {
	w, doubt, err := l.register(queues)
	if err != nil {
		return err
	}
	if ready(queues) {
		l.leave(w)
		return nil
	}
	for err = check(); err == nil; {
		select {
		case <-w.wake:
			return nil
		case <-doubt:
			if doubt, err = l.present(); err == nil {
				err = check()
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if l.leave(w) {
		for _, q := range queues {
			if ready([]string{q}) {
				l.wake(q, 1)
			}
		}
	}
	return err
}

// present is what closes at the next doubt, or why nobody may wait here.
func (l *lot) present() (doubt <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doubt, l.gone
}

// recheck has every poll ask whether it may wait.
func (l *lot) recheck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.doubt)
	l.doubt = make(chan struct{})
}

// close sends every poll away, with why, and takes no more.
func (l *lot) close(why error) {
	l.mu.Lock()
	l.gone = why
	l.mu.Unlock()
	l.recheck()
}

func (l *lot) register(queues []string) (*waiter, <-chan struct{}, error) {
	w := &waiter{queues: queues, elements: make([]*list.Element, len(queues)), wake: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone != nil {
		return nil, nil, l.gone
	}
	if l.count.Load() >= MaxParked {
		l.refused.Add(1)
		return nil, nil, api.Errorf(api.Overloaded, "%d polls are waiting on this node, the maximum: try again later or use fewer workers", MaxParked)
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
	return w, l.doubt, nil
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
