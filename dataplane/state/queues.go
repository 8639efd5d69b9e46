package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// queue is a queue in memory, as the running entry leaves it.
type queue struct {
	rec     *Queue
	heads   heads  // of jobs that no lane keeps apart
	lanes   *lanes // nil: none of its jobs has a fairness key
	gauge   *gauge // as of the last commit
	touched bool   // the entry changed rec: it is in tx.queues
	stirred bool   // the entry did what may have made jobs fetchable

	cleared     bool  // clearings has it
	replenishNs int64 // until when its rate limit keeps its jobs; 0 = it does not
}

// fetchable is how many jobs a fetch may take at clockNs.
func (q *queue) fetchable(clockNs int64) int {
	n := q.unlimited()
	if q.lanes != nil {
		n = min(n, q.lanes.fetchable(clockNs))
	}
	if n == 0 || q.rec.RateLimit == 0 {
		return n
	}
	return int(min(uint64(n), q.rec.RateFree(clockNs)))
}

// unlimited is fetchable without what the rate limit says.
func (q *queue) unlimited() int {
	if q.rec.Paused || q.rec.Deleting {
		return 0
	}
	n, most := q.rec.Ready(), uint64(q.rec.MaxConcurrency)
	if most == 0 {
		return int(n)
	}
	if active := q.rec.InState[job.Active]; active < most {
		return int(min(n, most-active))
	}
	return 0
}

// Ready is how many of the queue's pending jobs no gate keeps.
func (q *Queue) Ready() uint64 {
	if len(q.GetInState()) <= int(job.Pending) {
		return 0
	}
	return q.InState[job.Pending] - q.Gated
}

// Queue is a queue's record; nil when unknown. Read only.
func (tx *Tx) Queue(name string) *Queue {
	q := tx.s.queues[name]
	if q == nil {
		return nil
	}
	return q.rec
}

// CanAddQueues says whether n more queues fit under job.MaxQueues.
func (tx *Tx) CanAddQueues(n int) bool { return len(tx.s.queues)+n <= job.MaxQueues }

// EnsureQueue is the queue's record, created when new. Its settings may be
// changed in place and must then be stored with PutQueue.
func (tx *Tx) EnsureQueue(name string) *Queue { return tx.ensure(name).rec }

// AdmitQueue makes a queue where there is none, however many there are: for jobs
// that cannot be refused. A queue too many is better than a job too few.
func (tx *Tx) AdmitQueue(name string) {
	if tx.s.queues[name] == nil {
		tx.addQueue(name)
	}
}

func (tx *Tx) ensure(name string) *queue {
	if q := tx.s.queues[name]; q != nil {
		return q
	}
	if !tx.CanAddQueues(1) {
		tx.fail(fmt.Errorf("queue %q is one more than %d", name, job.MaxQueues))
	}
	return tx.addQueue(name)
}

func (tx *Tx) addQueue(name string) *queue {
	if err := job.CheckQueueName(name); err != nil {
		tx.fail(fmt.Errorf("new queue: %w", err))
	}
	q := newQueue(&Queue{Name: name, CreatedNs: tx.head.ClockNs})
	tx.s.queues[name] = q
	tx.head.QueueRecords++
	tx.touch(q)
	return q
}

// PutQueue marks a queue's settings as changed and appends the events.
func (tx *Tx) PutQueue(rec *Queue, events ...EventType) {
	q := tx.s.queues[rec.Name]
	if q == nil || q.rec != rec {
		tx.fail(fmt.Errorf("queue %q was put and is not the record EnsureQueue gave", rec.Name))
		return
	}
	tx.touch(q)
	q.stirred = true
	tx.opensGates = tx.opensGates || rec.Gated > 0
	for _, event := range events {
		tx.event(event, rec.Name, nil)
	}
}

// LearnCost moves the average of what an attempt of a queue costs towards the cost of
// one that has ended. It does not learn from an attempt without cost before any attempt
// has reported one: a queue whose workers report none expects none.
func (tx *Tx) LearnCost(name string, nanoUSD int64) {
	q := tx.s.queues[name]
	if q == nil || nanoUSD == 0 && q.rec.ExpectedCostNanoUsd == 0 {
		return
	}
	q.rec.ExpectedCostNanoUsd = average(q.rec.ExpectedCostNanoUsd, nanoUSD)
	tx.touch(q)
}

// DeleteQueue removes a queue that has no job in any state, and tells the feed.
// A queue of the same name that comes later starts from nothing.
func (tx *Tx) DeleteQueue(name string) error {
	q := tx.s.queues[name]
	if q == nil {
		return tx.fail(fmt.Errorf("delete queue %q: it is unknown", name))
	}
	for state, n := range q.rec.InState {
		if n > 0 {
			return tx.fail(fmt.Errorf("delete queue %q: it has %d %s jobs", name, n, job.State(state).Word()))
		}
	}
	if err := tx.batch.Delete(queueKey(name), nil); err != nil {
		return tx.fail(fmt.Errorf("delete queue %q: %w", name, err))
	}
	tx.removeLanes(q)
	delete(tx.s.queues, name)
	tx.head.QueueRecords--
	tx.queues = slices.DeleteFunc(tx.queues, func(other *queue) bool { return other == q })
	tx.deleted = append(tx.deleted, q)
	tx.event(EventType_EVENT_QUEUE_DELETED, name, nil)
	return nil
}

// touch has the queue's record written at Commit.
func (tx *Tx) touch(q *queue) {
	if !q.touched {
		q.touched = true
		tx.queues = append(tx.queues, q)
	}
}

// count moves a job of the queue from one state to another in its counters. The
// zero state is "not there".
func (tx *Tx) count(q *queue, from, to job.State) error {
	tx.touch(q)
	if from == to {
		return nil
	}
	if from != 0 {
		if q.rec.InState[from] == 0 {
			return fmt.Errorf("queue %q counts no %s jobs and one of them changes", q.rec.Name, from.Word())
		}
		q.rec.InState[from]--
	}
	q.rec.InState[to]++
	switch {
	case from == 0:
		q.rec.Enqueued++
	case from == job.Active && q.rec.MaxConcurrency > 0:
		q.stirred = true
	}
	switch to {
	case job.Active:
		q.rec.Started++
	case job.Completed:
		q.rec.Completed++
	case job.Dead:
		q.rec.Dead++
	case job.Cancelled:
		q.rec.Cancelled++
	}
	return nil
}

// moveReady makes the heads follow a job.
func (q *queue) moveReady(id job.ID, from, to index, bound int) error {
	if from.readyAs(to) {
		return nil
	}
	if from.ready {
		if err := q.heads.levels[from.priority].remove(from.number); err != nil {
			return fmt.Errorf("queue %q: %w", q.rec.Name, err)
		}
	}
	if to.ready {
		q.stirred = true
		if err := q.heads.levels[to.priority].add(head{to.number, id}, bound); err != nil {
			return fmt.Errorf("queue %q: %w", q.rec.Name, err)
		}
	}
	return nil
}

// NextReady is the queue's next job in order of (priority, number), paused or
// not; ok is false when none is ready. Of a queue with lanes it is that of the lane
// that is next; ok is false, too, when the limits of all lanes keep their jobs. PutJob
// with another state removes it.
func (tx *Tx) NextReady(name string) (id job.ID, ok bool, err error) {
	q := tx.s.queues[name]
	if q == nil || q.rec.Ready() == 0 {
		return job.ID{}, false, nil
	}
	heads, key := &q.heads, ""
	if q.lanes != nil {
		q.lanes.wake(tx.head.ClockNs)
		l := q.lanes.ready.first()
		if l == nil {
			return job.ID{}, false, nil
		}
		heads, key = l.heads, l.rec.Key
	}
	if q.rec.AgeingMs > 0 {
		id, ok, err = tx.mostUrgent(q, heads, key)
		if ok || err != nil {
			return id, ok, err
		}
		return job.ID{}, false, tx.noneReady(q)
	}
	for priority := range heads.levels {
		if h, ok, err := tx.oldestReady(q, heads, key, priority); ok || err != nil {
			return h.id, ok, err
		}
	}
	return job.ID{}, false, tx.noneReady(q)
}

// oldestReady is the oldest ready job of a priority and fairness key.
func (tx *Tx) oldestReady(q *queue, heads *heads, key string, priority int) (first head, ok bool, err error) {
	l := &heads.levels[priority]
	if len(l.list) == 0 && l.more {
		if err := tx.refill(q, key, uint8(priority), l); err != nil {
			return head{}, false, tx.fail(fmt.Errorf("ready jobs of queue %q: %w", q.rec.Name, err))
		}
	}
	if len(l.list) == 0 {
		return head{}, false, nil
	}
	if err := tx.readAhead(l); err != nil {
		return head{}, false, tx.fail(fmt.Errorf("ready jobs of queue %q: %w", q.rec.Name, err))
	}
	return l.list[0], true, nil
}

func (tx *Tx) noneReady(q *queue) error {
	return tx.fail(fmt.Errorf("queue %q counts %d ready jobs and none is there", q.rec.Name, q.rec.Ready()))
}

// refill reads a level on from the store, which does not hold yet what the
// running entry did; the jobs it touched say that.
func (tx *Tx) refill(q *queue, key string, priority uint8, l *level) error {
	var added []head
	var removed []uint64
	name := q.rec.Name
	here := func(ix index) bool {
		return ix.ready && ix.priority == priority && ix.number >= l.from && ix.queue == name && ix.key == key
	}
	for _, h := range tx.order {
		was, is := here(h.stored), here(h.now)
		if was && is && h.stored.number == h.now.number {
			continue
		}
		if is {
			added = append(added, head{h.now.number, h.id})
		}
		if was {
			removed = append(removed, h.stored.number)
		}
	}
	slices.SortFunc(added, func(a, b head) int { return cmp.Compare(a.number, b.number) })
	slices.Sort(removed)
	it, err := tx.s.gen.db.NewIter(&pebble.IterOptions{
		LowerBound: appendReadyOf(nil, name, key, priority, l.from),
		UpperBound: appendReadyOf(nil, name, key, priority+1, 0),
	})
	if err != nil {
		return err
	}
	err = l.refill(it, added, removed, tx.headsKept(key))
	if closed := it.Close(); err == nil {
		err = closed
	}
	return err
}

// headsKept is how many ready jobs of a fairness key are held in memory.
func (tx *Tx) headsKept(key string) int {
	if key == "" {
		return tx.s.options.headsKept
	}
	return min(tx.s.options.headsKept, laneHeads)
}
