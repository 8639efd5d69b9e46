package cell

import (
	"sync"
	"sync/atomic"
)

// claims counts, per queue, the jobs that running fetches ask for. A poll that finds every fetchable job
// claimed waits, because a fetch would return nothing: with a hundred workers and ten jobs, ten fetches are
// logged, not a hundred.
//
// A claim is a courtesy between the polls of one host and promises nothing: apply decides which jobs a fetch
// gets.
type claims struct {
	queues sync.Map // queue name -> *atomic.Int64
}

func (k *claims) of(queue string) *atomic.Int64 {
	if n, ok := k.queues.Load(queue); ok {
		return n.(*atomic.Int64)
	}
	n, _ := k.queues.LoadOrStore(queue, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// claimed returns the number of jobs of the queue that are claimed now.
func (k *claims) claimed(queue string) int64 {
	if n, ok := k.queues.Load(queue); ok {
		return n.(*atomic.Int64).Load()
	}
	return 0
}

// claimable returns the number of jobs of a queue that no running fetch has claimed. It is 0 while starts are held, so
// that polls wait as if the queue were empty.
func (c *Cell) claimable(queue string) int {
	fetchable := c.store.Fetchable(queue)
	if fetchable == 0 || c.startsHeld() {
		return 0 // the common case of a waiting poll, which need not look up the claims
	}
	return max(0, fetchable-int(c.claims.claimed(queue)))
}

// Claimable reports whether any of the queues has a job that a fetch may claim.
func (c *Cell) Claimable(queues []string) bool {
	for _, q := range queues {
		if c.claimable(q) > 0 {
			return true
		}
	}
	return false
}

// Claim claims up to n fetchable jobs of the queues, in their order, and returns the number. If it is not 0,
// the caller proposes its fetch and then calls release, even if the fetch failed.
func (c *Cell) Claim(queues []string, n int) (claimed int, release func()) {
	type held struct {
		queue string
		n     int64
	}
	var room [4]held // no allocation for a fetch of few queues, as most are
	taken := room[:0]
	for _, q := range queues {
		if n == 0 {
			break
		}
		if free := min(c.claimable(q), n); free > 0 {
			c.claims.of(q).Add(int64(free))
			taken = append(taken, held{q, int64(free)})
			n -= free
			claimed += free
		}
	}
	if len(taken) == 0 {
		return 0, nil
	}
	return claimed, func() {
		for _, t := range taken {
			c.claims.of(t.queue).Add(-t.n)
			// Polls that came while the jobs were claimed are parked. If the fetch left jobs, only this call
			// wakes them.
			c.onReady(t.queue, 0)
		}
	}
}

// startsHeld reports whether no job may start now.
func (c *Cell) startsHeld() bool { return c.cfg.StartsHeld != nil && c.cfg.StartsHeld() }

// NotifyReady tells the host whether a queue has unclaimed jobs. The host calls it when starts are no longer held, because
// no entry tells it of the jobs then.
func (c *Cell) NotifyReady(queue string) { c.onReady(queue, 0) }

// onReady tells the host that a queue has jobs for polls, unless all of them are claimed.
func (c *Cell) onReady(queue string, _ int) {
	if c.cfg.OnReady == nil {
		return
	}
	if n := c.claimable(queue); n > 0 {
		c.cfg.OnReady(queue, n)
	}
}
