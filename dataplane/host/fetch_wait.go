package host

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/api"
)

// MaxParked bounds the parked polls of one namespace. Each holds a goroutine and a connection.
const MaxParked = 100_000

// waitingPolls parks the polls of one namespace until one of their queues has a job for them. It is not a
// part of a cell, because a poll may name queues of several shards, and needs no cell while it waits.
//
// mu guards waiting, recheck, gone and every waiter's elements and woken mark. The applying goroutine takes it,
// so nothing slow happens under it.
type waitingPolls struct {
	mu      sync.Mutex
	waiting map[string]*list.List // queue -> its *waiters, longest waiting first
	recheck chan struct{}         // closed, and replaced, when every poll must check whether it may still wait
	gone    error                 // the error for polls once the namespace closes
	count   atomic.Int64          // waiters; lets wake return without the lock
	refused atomic.Uint64         // polls refused because MaxParked others waited
}

// waiter is one parked poll. It is in the list of each of its queues.
type waiter struct {
	queues   []string
	elements []*list.Element
	wake     chan struct{} // closed once, under waitingPolls.mu
	woken    bool
}

func newWaitingPolls() *waitingPolls {
	return &waitingPolls{waiting: make(map[string]*list.List), recheck: make(chan struct{})}
}

// park waits until one of the queues may have a job, ctx ends, or check returns an error. It registers the
// poll before it calls ready and check, so that they either see a change or the change wakes the poll. A poll
// that ends in the moment in which it is woken passes the wake on.
func (p *waitingPolls) park(ctx context.Context, queues []string, ready func([]string) bool, check func() error) error {
	w, recheck, err := p.register(queues)
	if err != nil {
		return err
	}
	if ready(queues) {
		p.leave(w)
		return nil
	}
	for err = check(); err == nil; {
		select {
		case <-w.wake:
			return nil
		case <-recheck:
			if recheck, err = p.recheckChannel(); err == nil {
				err = check()
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if p.leave(w) {
		for _, q := range queues {
			if ready([]string{q}) {
				p.wake(q, 1)
			}
		}
	}
	return err
}

// recheckChannel returns the channel that closes at the next recheck, or the reason why nobody may wait here.
func (p *waitingPolls) recheckChannel() (recheck <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recheck, p.gone
}

// recheckAll makes every poll check whether it may still wait.
func (p *waitingPolls) recheckAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.recheck)
	p.recheck = make(chan struct{})
}

// close ends every poll with the error why, and refuses new ones.
func (p *waitingPolls) close(why error) {
	p.mu.Lock()
	p.gone = why
	p.mu.Unlock()
	p.recheckAll()
}

func (p *waitingPolls) register(queues []string) (*waiter, <-chan struct{}, error) {
	w := &waiter{queues: queues, elements: make([]*list.Element, len(queues)), wake: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil {
		return nil, nil, p.gone
	}
	if p.count.Load() >= MaxParked {
		p.refused.Add(1)
		return nil, nil, api.Errorf(api.Overloaded, "%d polls are waiting on this node, the maximum: try again later or use fewer workers", MaxParked)
	}
	for i, q := range queues {
		line := p.waiting[q]
		if line == nil {
			line = list.New()
			p.waiting[q] = line
		}
		w.elements[i] = line.PushBack(w)
	}
	p.count.Add(1)
	return w, p.recheck, nil
}

// leave removes a waiter and reports whether it had already been woken.
func (p *waitingPolls) leave(w *waiter) (woken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.woken {
		return true
	}
	p.remove(w)
	return false
}

// wake wakes up to n polls of a queue, the longest waiting first.
func (p *waitingPolls) wake(queue string, n int) {
	if p.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	line := p.waiting[queue]
	for ; n > 0 && line != nil && line.Len() > 0; n-- {
		w := line.Front().Value.(*waiter)
		w.woken = true
		p.remove(w)
		close(w.wake)
	}
}

// queues lists the queues with a waiting poll.
func (p *waitingPolls) queues() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.waiting))
}

// remove removes the waiter from the lists of all its queues; the caller holds mu.
func (p *waitingPolls) remove(w *waiter) {
	for i, q := range w.queues {
		line := p.waiting[q]
		line.Remove(w.elements[i])
		if line.Len() == 0 {
			delete(p.waiting, q)
		}
	}
	p.count.Add(-1)
}
