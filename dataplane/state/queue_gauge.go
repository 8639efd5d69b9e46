package state

import (
	"math"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// gauge holds figures of a queue that are read without Pebble and without a lock, as of the last commit that
// touched the queue.
type gauge struct {
	fetchable atomic.Int64
	// floors holds a number for each priority. No ready job without a fairness key has a lower number. A
	// reader of the oldest job begins there; from the level's first key it would walk over the tombstones of
	// all jobs fetched before.
	floors [job.Priorities]atomic.Uint64
}

// publish updates the gauge from the queue.
func (g *gauge) publish(q *queue, clockNs int64) {
	g.fetchable.Store(int64(q.fetchable(clockNs)))
	for i := range q.heads.levels {
		g.floors[i].Store(q.heads.levels[i].floor())
	}
}

// floor returns a lower bound of the numbers of the level's ready jobs.
func (l *level) floor() uint64 {
	switch {
	case len(l.list) > 0:
		return l.list[0].number
	case l.more:
		return l.from
	}
	return math.MaxUint64
}

// Fetchable returns the number of jobs of a queue that may be fetched now: its ready jobs, bounded by its
// pause, its concurrency, its rate limit and the limits of its lanes. It returns 0 for an unknown queue. The
// number is exact as of the last commit that touched the queue. Fetchable takes no lock. Time alone can raise
// the room under a rate limit; Fetchable shows that after the next commit that touches the queue. If there
// was no room, a duty makes that commit with the op Replenish (see queue_replenish.go).
func (s *Store) Fetchable(name string) int {
	g, ok := s.gauges.Load(name)
	if !ok {
		return 0
	}
	return int(g.(*gauge).fetchable.Load())
}

// gauge returns the gauge of a queue and creates it if necessary.
func (s *Store) gauge(name string) *gauge {
	g, _ := s.gauges.LoadOrStore(name, new(gauge))
	return g.(*gauge)
}

// OldestLanes bounds the fairness keys of a queue that Oldest.Of examines. Of misses an older job of a key
// that it does not examine.
const OldestLanes = 1000

// Oldest finds the oldest ready jobs of queues. The caller must close it.
type Oldest struct {
	store *Store
	snap  *Snapshot
	it    *pebble.Iterator
}

// Oldest opens a search for the oldest ready jobs in a snapshot of the store.
func (s *Store) Oldest(v *Snapshot) (*Oldest, error) {
	// One iterator serves all queues, because opening one costs more than moving it.
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixReady}, UpperBound: []byte{prefixLaneReady + 1}})
	if err != nil {
		return nil, err
	}
	return &Oldest{store: s, snap: v, it: it}, nil
}

// Close ends the search. The snapshot stays open.
func (o *Oldest) Close() error { return o.it.Close() }

// Of returns the creation time, in Unix nanoseconds, of the ready job of a queue with the lowest number, or 0
// if there is none. q is the queue's record in the snapshot. Of ignores limits. It may miss a job that was
// ready in the snapshot and no longer is.
func (o *Oldest) Of(q *Queue) (createdNs int64, err error) {
	if q.Ready() == 0 {
		return 0, nil
	}
	first := head{number: math.MaxUint64}
	g := o.store.gauge(q.Name)
	for priority := range uint8(job.Priorities) {
		if floor := g.floors[priority].Load(); floor < first.number {
			if err := o.look(q.Name, "", priority, floor, &first); err != nil {
				return 0, err
			}
		}
	}
	if q.Lanes > 0 {
		if err := o.lanes(q.Name, &first); err != nil {
			return 0, err
		}
	}
	if first.number == math.MaxUint64 {
		return 0, nil
	}
	j, err := o.snap.Job(first.id)
	return j.GetCreatedNs(), err
}

// lanes examines the jobs of a queue that have fairness keys.
func (o *Oldest) lanes(queue string, first *head) error {
	lanes, err := o.snap.lanesOf(queue)
	if err != nil {
		return err
	}
	looks := OldestLanes
	for _, l := range lanes {
		if l.Key == "" || l.Pending == 0 {
			continue
		}
		if looks--; looks < 0 {
			return nil
		}
		for priority := range uint8(job.Priorities) {
			if err := o.look(queue, l.Key, priority, 0, first); err != nil {
				return err
			}
		}
	}
	return nil
}

// look finds the first ready job of a level from a number on and keeps it if its number is lower than the
// first job's so far.
func (o *Oldest) look(queue, key string, priority uint8, from uint64, first *head) error {
	end := appendReadyOf(nil, queue, key, priority+1, 0)
	if o.it.SeekGEWithLimit(appendReadyOf(nil, queue, key, priority, from), end) != pebble.IterValid {
		return o.it.Error()
	}
	number, err := readyNumber(o.it.Key())
	if err != nil || number >= first.number {
		return err
	}
	id, err := job.IDFromBytes(o.it.Value())
	*first = head{number, id}
	return err
}
