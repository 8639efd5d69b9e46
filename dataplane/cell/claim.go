package cell

import (
	"sync"
	"sync/atomic"
)

// claims counts, per queue, the jobs that fetches under way have asked for. A
// poll that finds every fetchable job claimed waits instead of proposing a fetch
// that would come back empty: with a hundred workers and ten jobs, ten fetches
// are logged, not a hundred.
//
// A claim is a courtesy between the polls of one host, not a promise: what a
// fetch really gets is decided in apply.
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

// claimed is how many jobs of the queue are claimed now.
func (k *claims) claimed(queue string) int64 {
	if n, ok := k.queues.Load(queue); ok {
		return n.(*atomic.Int64).Load()
	}
	return 0
}

// claimable is how many jobs of a queue no fetch under way has asked for.
func (c *Cell) claimable(queue string) int {
	fetchable := c.store.Fetchable(queue)
	if fetchable == 0 {
		return 0 // the common case of a waiting poll: no look at the claims
	}
	return max(0, fetchable-int(c.claims.claimed(queue)))
}

// Claimable says whether any of the queues has a job that a fetch may claim.
func (c *Cell) Claimable(queues []string) bool {
	for _, q := range queues {
		if c.claimable(q) > 0 {
			return true
		}
	}
	return false
}

// Claim reserves up to n fetchable jobs of the queues, in their order, and says
// how many. Where it is not 0, the caller proposes its fetch and then calls
// release, whatever came of it.
func (c *Cell) Claim(queues []string, n int) (claimed int, release func()) {
	type held struct {
		queue string
		n     int64
	}
	var room [4]held // most fetches name few queues: no allocation for them
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
			// A poll that came while the claim stood has parked; if the fetch left
			// something, nothing but this would wake it.
			c.onReady(t.queue, 0)
		}
	}
}

// onReady tells the host that a queue can serve polls, if nobody has claimed all
// of it.
func (c *Cell) onReady(queue string, _ int) {
	if c.cfg.OnReady == nil {
		return
	}
	if n := c.claimable(queue); n > 0 {
		c.cfg.OnReady(queue, n)
	}
}
