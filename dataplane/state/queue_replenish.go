package state

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/corvo/corvo/dataplane/job"
)

// Fetchable is as of the last commit, but a queue stopped by its rate limit becomes fetchable by time alone.
// So the store remembers when each such queue becomes fetchable. A duty then proposes an entry that touches
// the queue: every replica finds it fetchable at the same position of the log, and its waiting fetches are
// woken. The times lie only in memory, because they derive from the queues' records and the clock.

// RateFree returns the number of jobs that the queue's rate limit allows at nowNs.
func (q *Queue) RateFree(nowNs int64) uint64 {
	if q.GetRateLimit() == 0 {
		return math.MaxUint64
	}
	return uint64(q.Rate.Free(q.RateLimit, q.RateWindowMs, nowNs))
}

// CountRate counts a job that starts at nowNs. Only the running entry may call it, because it changes the
// record. A put of the queue or of one of its jobs must follow.
func (q *Queue) CountRate(nowNs int64) {
	if q.RateLimit == 0 {
		return
	}
	if q.Rate == nil {
		q.Rate = &job.RateWindow{}
	}
	q.Rate.Take(q.RateWindowMs, nowNs)
}

// replenishAt returns the time at which the rate limit of the queue or of a lane next allows a job that
// nothing else keeps back, or 0 if no rate limit keeps one back.
func (q *queue) replenishAt(clockNs int64) int64 {
	if q.rec.RateLimit == 0 && q.lanes == nil || q.unlimited() == 0 {
		return 0
	}
	at := int64(0)
	if q.lanes != nil && q.lanes.fetchable(clockNs) == 0 {
		if at = q.lanes.freeAt(); at == 0 {
			return 0
		}
	}
	if q.rec.RateFree(clockNs) > 0 {
		return at
	}
	return max(at, q.rec.Rate.FreeAt(q.rec.RateLimit, q.rec.RateWindowMs, clockNs))
}

// replenishments holds the queues that rate limits keep back, and until when.
type replenishments struct {
	mu    sync.Mutex
	until map[string]int64
}

// set records until when a queue is kept back; 0 removes it.
func (r *replenishments) set(name string, ns int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ns == 0 {
		delete(r.until, name)
		return
	}
	if r.until == nil {
		r.until = map[string]int64{}
	}
	r.until[name] = ns
}

func (r *replenishments) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.until)
}

// NextReplenish returns the first time at which a rate limit of a queue or lane allows a kept job, as of the
// last commit; ok is false if rate limits keep none back.
func (s *Store) NextReplenish() (dueNs int64, ok bool) {
	s.replenish.mu.Lock()
	defer s.replenish.mu.Unlock()
	dueNs = math.MaxInt64
	for _, ns := range s.replenish.until {
		dueNs, ok = min(dueNs, ns), true
	}
	return dueNs, ok
}

// ReplenishDue returns the names of the queues whose rate limits allow kept jobs at nowNs, sorted, at most
// job.MaxDutyItems of them.
func (s *Store) ReplenishDue(nowNs int64) []string {
	s.replenish.mu.Lock()
	defer s.replenish.mu.Unlock()
	var due []string
	for _, name := range slices.Sorted(maps.Keys(s.replenish.until)) {
		if s.replenish.until[name] <= nowNs && len(due) < job.MaxDutyItems {
			due = append(due, name)
		}
	}
	return due
}

// keepReplenishment updates, after a commit, how long a rate limit keeps a queue back. It returns the end and
// true if the commit set a new end.
func (s *Store) keepReplenishment(q *queue, clockNs int64) (dueNs int64, news bool) {
	at := q.replenishAt(clockNs)
	if at == q.replenishNs {
		return 0, false
	}
	q.replenishNs = at
	s.replenish.set(q.rec.Name, at)
	return at, at != 0
}
