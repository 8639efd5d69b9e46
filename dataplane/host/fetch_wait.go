package host

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/api"
)

// MaxParked bounds the parked polls of one namespace. Each holds a goroutine and a connection.
const MaxParked = 100_000

// lot parks the polls of one namespace until one of their queues has a job for them. It is not a part of a
// cell, because a poll may name queues of several shards, and needs no cell while it waits.
//
// mu guards waiting, doubt, gone and every waiter's elements and woken mark. The applying goroutine takes it,
// so nothing slow happens under it.
type lot struct {
	mu      sync.Mutex
	waiting map[string]*list.List // queue -> its *waiters, longest waiting first
	doubt   chan struct{}         // closed, and replaced, when every poll must check whether it may still wait
	gone    error                 // the error for polls once the namespace closes
	count   atomic.Int64          // waiters; lets wake return without the lock
	refused atomic.Uint64         // polls that found the lot full
}

// waiter is one parked poll. It is in the list of each of its queues.
type waiter struct {
	queues   []string
	elements []*list.Element
	wake     chan struct{} // closed once, under lot.mu
	woken    bool
}

func newLot() *lot {
	return &lot{waiting: make(map[string]*list.List), doubt: make(chan struct{})}
}

// park waits until one of the queues may have a job, ctx ends, or check returns an error. It registers the
// poll before it calls ready and check, so that they either see a change or the change wakes the poll. A poll
// that ends in the moment in which it is woken passes the wake on.
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

// present returns the channel that closes at the next recheck, or the reason why nobody may wait here.
func (l *lot) present() (doubt <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doubt, l.gone
}

// recheck makes every poll check whether it may still wait.
func (l *lot) recheck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.doubt)
	l.doubt = make(chan struct{})
}

// close ends every poll with the error why, and refuses new ones.
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

// leave removes a waiter and reports whether it had already been woken.
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

// remove removes the waiter from the lists of all its queues; the caller holds mu.
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
