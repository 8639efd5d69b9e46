package state

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

// A queue's record says how much of its counters the usage rows have, so that the quantities of the next row are
// differences, and enqueues and acks write no row (ADR 0088). The store keeps the set of queues with such quantities
// in memory.

// unmetered is the set of queues with quantities that no usage row has.
type unmetered struct {
	mu      sync.Mutex
	queues  map[string]bool
	sinceNs int64 // clock of the commit that added the first of them after the last recording
}

// set records after a commit whether a queue has such quantities, and reports whether it is the first that has.
func (u *unmetered) set(name string, has bool, clockNs int64) (first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !has { // a recording; those that follow for the other queues are at hand
		delete(u.queues, name)
		u.sinceNs = clockNs
		return false
	}
	if u.queues == nil {
		u.queues = map[string]bool{}
	}
	if first = len(u.queues) == 0; first {
		u.sinceNs = clockNs
	}
	u.queues[name] = true
	return first
}

// drop removes a deleted queue. The others have waited as long as before.
func (u *unmetered) drop(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.queues, name)
}

func (u *unmetered) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.queues)
}

// Unmetered returns the number of queues with quantities that no usage row has, as of the last commit, and since when
// there are such queues.
func (s *Store) Unmetered() (n int, sinceNs int64) {
	s.unmetered.mu.Lock()
	defer s.unmetered.mu.Unlock()
	return len(s.unmetered.queues), s.unmetered.sinceNs
}

// UnmeteredQueues returns the names of the queues that Unmetered counts, sorted.
func (s *Store) UnmeteredQueues() []string {
	s.unmetered.mu.Lock()
	defer s.unmetered.mu.Unlock()
	return slices.Sorted(maps.Keys(s.unmetered.queues))
}

// StoredBytes returns the size of the store's tables, which are compressed. It leaves out what only memory has yet.
func (s *Store) StoredBytes() (uint64, error) {
	gen, err := s.acquire()
	if err != nil {
		return 0, err
	}
	total := gen.db.Metrics().Total()
	return uint64(max(total.TablesSize, 0)) + total.EstimatedReferencesSize, gen.release()
}

// meters reports whether the history counts quantities for usage rows.
func (tx *Tx) meters() bool { return tx.head.MeteredNs != 0 }

// metered returns what the usage rows have of the queue, to be changed by the entry.
func (q *queue) metered() *Metered {
	if q.rec.Metered == nil {
		q.rec.Metered = &Metered{}
	}
	return q.rec.Metered
}

// unmetered returns the quantities of the queue that no usage row has.
func (q *Queue) unmetered() QueueMeters {
	m := q.Metered
	return QueueMeters{
		JobsEnqueued:  q.Enqueued - m.GetEnqueued(),
		JobsCompleted: q.Completed - m.GetCompleted(),
		ActiveSeconds: m.GetActiveNs() / uint64(time.Second),
	}
}

// owesMeters reports whether the queue has quantities that no usage row has.
func (q *Queue) owesMeters() bool {
	m := q.Metered
	return q.Enqueued != m.GetEnqueued() || q.Completed != m.GetCompleted() || m.GetActiveNs() >= uint64(time.Second)
}

// countActive counts the time for which the ended attempt of a job held its lease.
func (tx *Tx) countActive(h *entryJob) {
	undelivered := h.undelivered
	h.undelivered = false
	if !tx.meters() || undelivered {
		return
	}
	if heldNs := min(tx.head.ClockNs, h.now.timer.dueNs) - h.now.startedNs; heldNs > 0 {
		h.queue.metered().ActiveNs += uint64(heldNs)
	}
}

// SetUndelivered notes that no worker received the attempt of j that the op ends, so that the attempt counts no active
// time. PutJob must follow.
func (tx *Tx) SetUndelivered(j *job.Job) {
	if h := tx.jobs[job.ID(j.Id)]; h != nil {
		h.undelivered = true
	}
}

// RecordMeters adds a usage row with the quantities of the queues, the open time and the stored bytes since the last
// row, if there are any. It skips queues that are unknown or have none. The first RecordMeters of a history adds no
// row: the metering begins with the counters as they are.
func (tx *Tx) RecordMeters(queues []string, storedBytes uint64) error {
	if !tx.meters() {
		tx.beginMetering()
		return nil
	}
	row := &ShardMeters{}
	for _, name := range queues {
		if q := tx.s.queues[name]; q != nil && q.rec.owesMeters() {
			row.Queues = append(row.Queues, tx.takeMeters(q))
		}
	}
	row.OpenSeconds = tx.takeOpenTime()
	row.StoredByteSeconds = storedBytes * row.OpenSeconds
	if len(row.Queues) == 0 && row.OpenSeconds == 0 {
		return nil
	}
	return tx.addUsageRow(&Usage{ClockNs: tx.head.ClockNs, Meters: row})
}

// beginMetering makes the present counters of all queues the beginning of the metering. An earlier history may have
// rows with their quantities, and the queues may be older than the metering.
func (tx *Tx) beginMetering() {
	for _, name := range slices.Sorted(maps.Keys(tx.s.queues)) {
		q := tx.s.queues[name]
		if q.rec.Enqueued > 0 || q.rec.Metered != nil {
			q.rec.Metered = &Metered{Enqueued: q.rec.Enqueued, Completed: q.rec.Completed}
			tx.touch(q)
		}
	}
	tx.head.MeteredNs = tx.head.ClockNs
}

// takeMeters returns the quantities of a queue that no usage row has, and notes that a row has them.
func (tx *Tx) takeMeters(q *queue) *QueueMeters {
	is := q.rec.unmetered()
	is.Queue = q.rec.Name
	m := q.metered()
	m.Enqueued, m.Completed = q.rec.Enqueued, q.rec.Completed
	m.ActiveNs -= is.ActiveSeconds * uint64(time.Second)
	tx.touch(q)
	return &is
}

// takeOpenTime returns the whole seconds for which the shard was open since the last recording, and notes that a row
// has them. Time without a leader does not count, and neither does a gap of job.MaxOpenGap or more.
func (tx *Tx) takeOpenTime() (seconds uint64) {
	head := tx.head
	fromNs := max(head.MeteredNs, head.TermStartedNs)
	openNs := head.ClockNs - fromNs
	if openNs >= int64(job.MaxOpenGap) {
		head.MeteredNs = head.ClockNs
		return 0
	}
	seconds = uint64(openNs) / uint64(time.Second)
	head.MeteredNs = fromNs + int64(seconds)*int64(time.Second)
	return seconds
}

// recordDeleted adds a usage row with the quantities of a queue that the entry deletes.
func (tx *Tx) recordDeleted(q *queue) error {
	if !tx.meters() || !q.rec.owesMeters() {
		return nil
	}
	row := &ShardMeters{Queues: []*QueueMeters{tx.takeMeters(q)}}
	return tx.addUsageRow(&Usage{ClockNs: tx.head.ClockNs, Meters: row})
}

// publishMetered updates, after a commit, whether a queue has quantities that no usage row has. It reports whether the
// queue is the first that has.
func (s *Store) publishMetered(q *queue, head *Head) (first bool) {
	has := head.GetMeteredNs() != 0 && q.rec.owesMeters()
	if has == q.unmetered {
		return false
	}
	q.unmetered = has
	return s.unmetered.set(q.rec.Name, has, head.ClockNs)
}

// checkMeters checks that usage rows have no more of a queue than its counters say.
func (c *checker) checkMeters(q *Queue) {
	if m := q.Metered; m.GetEnqueued() > q.Enqueued || m.GetCompleted() > q.Completed {
		c.report("usage rows have %d jobs enqueued and %d completed of queue %s, which counts %d and %d", m.GetEnqueued(), m.GetCompleted(), q.Name, q.Enqueued, q.Completed)
	}
}
