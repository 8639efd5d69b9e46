package state

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/corvo/corvo/dataplane/job"
)

// Fetchable speaks of the last commit, and a queue that its rate limit stopped is
// free again by nothing but time. So the store keeps in mind when each such queue
// is: a duty then proposes an entry that touches it, by which every replica finds
// it fetchable at the same moment of the log, and wakes its polls. It lies in
// memory alone: it derives from the queues' records and the clock.

// RateFree is how many jobs the queue's rate limit lets go at nowNs.
func (q *Queue) RateFree(nowNs int64) uint64 {
	if q.GetRateLimit() == 0 {
		return math.MaxUint64
	}
	return uint64(q.Rate.Free(q.RateLimit, q.RateWindowMs, nowNs))
}

// CountRate counts a job that is let go at nowNs. The record must be one that may
// be changed.
func (q *Queue) CountRate(nowNs int64) {
	if q.RateLimit == 0 {
		return
	}
	if q.Rate == nil {
		q.Rate = &job.RateWindow{}
	}
	q.Rate.Take(q.RateWindowMs, nowNs)
}

// replenishAt is when the queue's rate limit, or that of a lane, lets a job go that
// nothing else keeps; 0 where it is not those limits that keep one.
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

// replenishments are the queues that their rate limits keep, and until when.
type replenishments struct {
	mu    sync.Mutex
	until map[string]int64
}

// set notes until when a queue is kept; 0 is not at all.
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

// NextReplenish is the first moment at which a queue's rate limit lets go of a job
// that it keeps, as of the last commit.
func (s *Store) NextReplenish() (dueNs int64, ok bool) {
	s.replenish.mu.Lock()
	defer s.replenish.mu.Unlock()
	dueNs = math.MaxInt64
	for _, ns := range s.replenish.until {
		dueNs, ok = min(dueNs, ns), true
	}
	return dueNs, ok
}

// ReplenishDue lists the queues whose rate limits let go at nowNs of jobs that they
// keep, by name: job.MaxDutyItems of them at most.
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

// keepReplenishment notes what the commit made of a queue, and says whether and for
// when that is news.
func (s *Store) keepReplenishment(q *queue, clockNs int64) (dueNs int64, news bool) {
	at := q.replenishAt(clockNs)
	if at == q.replenishNs {
		return 0, false
	}
	q.replenishNs = at
	s.replenish.set(q.rec.Name, at)
	return at, at != 0
}
