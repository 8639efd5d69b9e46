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
	rec        *Queue
	heads      heads  // of the jobs without a fairness key
	lanes      *lanes // nil if the queue has none
	gauge      *gauge // as of the last commit
	touched    bool   // the entry changed rec; the queue is in tx.queues
	gainedJobs bool   // the entry may have made jobs fetchable

	settledNs [settledStates]int64  // earliest settle time that the entry adds, by state; 0 = none
	settled   [settledStates]uint64 // settled jobs that the entry adds, by state

	cleared     bool  // the queue is in clearings
	unmetered   bool  // the queue is in Store.unmetered
	replenishNs int64 // until then a rate limit keeps its jobs; 0 = none does
}

// fetchable returns the number of jobs that a fetch may take at clockNs.
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

// unlimited returns the number of jobs that a fetch could take if neither the queue's rate limit nor the
// limits of its lanes applied.
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

// Ready returns the number of the queue's pending jobs that no gate keeps.
func (q *Queue) Ready() uint64 {
	if len(q.GetInState()) <= int(job.Pending) {
		return 0
	}
	return q.InState[job.Pending] - q.Gated
}

// Queue returns a queue's record, or nil if it is unknown. The caller must not change it.
func (tx *Tx) Queue(name string) *Queue {
	q := tx.s.queues[name]
	if q == nil {
		return nil
	}
	return q.rec
}

// CanAddQueues reports whether n more queues fit under job.MaxQueues.
func (tx *Tx) CanAddQueues(n int) bool { return len(tx.s.queues)+n <= job.MaxQueues }

// EnsureQueue returns the queue's record and creates it if necessary; the op must have checked CanAddQueues.
// The op may change the settings in place and must then call PutQueue.
func (tx *Tx) EnsureQueue(name string) *Queue { return tx.ensure(name).rec }

// AdmitQueue creates a queue if there is none, even beyond job.MaxQueues. It is for jobs that cannot be
// refused: one queue too many is better than a lost job.
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
	if err := job.CheckStoredQueueName(name); err != nil {
		tx.fail(fmt.Errorf("new queue: %w", err))
	}
	q := newQueue(&Queue{Name: name, CreatedNs: tx.head.ClockNs})
	tx.s.queues[name] = q
	tx.head.QueueRecords++
	tx.touch(q)
	return q
}

// PutQueue has Commit write the settings that the op has changed in rec, the record that EnsureQueue or Queue
// returned, and appends the events.
func (tx *Tx) PutQueue(rec *Queue, events ...EventType) {
	q := tx.s.queues[rec.Name]
	if q == nil || q.rec != rec {
		tx.fail(fmt.Errorf("queue %q was put and is not the record EnsureQueue gave", rec.Name))
		return
	}
	tx.touch(q)
	q.gainedJobs = true
	tx.opensGates = tx.opensGates || rec.Gated > 0
	for _, event := range events {
		tx.event(event, rec.Name, nil)
	}
}

// LearnCost moves the average cost of a queue's attempts towards the cost of one that has ended. It ignores
// attempts without cost until one has reported a cost, because a queue whose workers report none has no
// expected cost.
func (tx *Tx) LearnCost(name string, nanoUSD int64) {
	q := tx.s.queues[name]
	if q == nil || nanoUSD == 0 && q.rec.ExpectedCostNanoUsd == 0 {
		return
	}
	q.rec.ExpectedCostNanoUsd = average(q.rec.ExpectedCostNanoUsd, nanoUSD)
	tx.touch(q)
}

// DeleteQueue removes a queue, which must exist and have no jobs, and appends an event to the feed. A usage row gets the
// queue's quantities that no row has yet. A later queue with the name starts from nothing.
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
	if err := tx.recordDeleted(q); err != nil {
		return fmt.Errorf("delete queue %q: %w", name, err)
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

// touch makes Commit write the queue's record.
func (tx *Tx) touch(q *queue) {
	if !q.touched {
		q.touched = true
		tx.queues = append(tx.queues, q)
	}
}

// count moves a job of the queue from one state to another in the queue's counters. The zero state stands for
// a new job.
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
		q.gainedJobs = true
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

// moveReady updates the heads when a job changes.
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
		q.gainedJobs = true
		if err := q.heads.levels[to.priority].add(head{to.number, id}, bound); err != nil {
			return fmt.Errorf("queue %q: %w", q.rec.Name, err)
		}
	}
	return nil
}

// NextReady returns the next job of a queue, even if the queue is paused or its own limits are reached; ok is
// false if no job is ready. The order is (priority, number), or the order of mostUrgent in a queue with
// ageing. In a queue with lanes NextReady returns the next job of the next lane, and ok is false also if
// limits keep back the jobs of all lanes. NextReady does not take the job: a PutJob that gives the job
// another state or a gate does.
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

// oldestReady returns the ready job of a priority and fairness key with the lowest number.
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

// refill reads the next heads of a level from the store. The store does not contain the running entry's
// changes yet, so refill takes those from the jobs that the entry touched.
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

// headsKept returns the number of ready jobs that memory holds at most for a priority of a fairness key.
func (tx *Tx) headsKept(key string) int {
	if key == "" {
		return tx.s.options.headsKept
	}
	return min(tx.s.options.headsKept, laneHeads)
}
