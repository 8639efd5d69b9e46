package view

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// A flush ends after the entry with which it reaches one of these limits.
const (
	maxFlushJobs   = 20_000
	maxFlushEvents = 200_000
)

// lightEvents are the events that change only a job's record, not its blobs or errors. For every other event,
// including an event not known here, the flush reads the job's blobs and errors again. An op that changes a
// blob or an error must therefore emit an event that is not in this list.
var lightEvents = map[state.EventType]bool{
	state.EventType_EVENT_ENQUEUED:         true, // blobs of a new job are read anyway
	state.EventType_EVENT_SCHEDULED:        true,
	state.EventType_EVENT_STARTED:          true,
	state.EventType_EVENT_PROMOTED:         true,
	state.EventType_EVENT_RETURNED:         true,
	state.EventType_EVENT_RENEWED:          true,
	state.EventType_EVENT_MOVED:            true,
	state.EventType_EVENT_PRIORITY_CHANGED: true,

	state.EventType_EVENT_CANCELLING:     true,
	state.EventType_EVENT_DUPLICATE:      true,
	state.EventType_EVENT_UNLOCKED:       true,
	state.EventType_EVENT_UNBLOCKED:      true,
	state.EventType_EVENT_CHAIN_ADVANCED: true,
	state.EventType_EVENT_GATED:          true,
	state.EventType_EVENT_UNGATED:        true,
	// These events delete a job, so nothing is left to read.
	state.EventType_EVENT_DELETED: true,
	state.EventType_EVENT_PURGED:  true,
}

// rewrites are the events after which the flush writes again the rows that it normally writes once. A move is
// one of them because the full text contains the queue's name.
var rewrites = map[state.EventType]bool{
	state.EventType_EVENT_DEBOUNCED: true,
	state.EventType_EVENT_APPROVED:  true,
	state.EventType_EVENT_MOVED:     true,
}

// changes is the set of records that a part of the feed touched. It does not matter how often and in which
// order they changed, because the rows are made from the records as they are now.
type changes struct {
	jobs    map[uint64]touchedJob // by number
	queues  map[string]bool
	records touchedRecords
	next    cursor // after the last entry read
	counts  map[queueSecond]api.Rates
}

type touchedJob struct {
	id        job.ID
	whole     bool // read blobs and errors too
	rewrite   bool // also rewrite rows that are normally written once
	keyFreed  bool // the job may have given up its debounce key
	restarted bool // the job began again, without its previous iterations
}

// readChanges reads the feed from the cursor on.
func readChanges(snap *state.Snapshot, from cursor) (*changes, error) {
	c := &changes{jobs: map[uint64]touchedJob{}, queues: map[string]bool{}, records: newTouchedRecords(), next: from, counts: map[queueSecond]api.Rates{}}
	events := 0
	for item, err := range snap.Feed(from.seq) {
		if err != nil {
			return nil, fmt.Errorf("read the feed from %d: %w", from.seq, err)
		}
		e := item.Entry
		for _, event := range e.Events {
			if err := c.touch(event); err != nil {
				return nil, fmt.Errorf("entry %d of the feed: %w", e.Index, err)
			}
			countEvent(c.counts, event, e.ClockNs)
		}
		c.next.seq = item.FirstSeq + uint64(len(e.Events))
		c.next.index, c.next.clockNs = e.Index, e.ClockNs
		if events += len(e.Events); events >= maxFlushEvents || len(c.jobs) >= maxFlushJobs {
			break
		}
	}
	return c, nil
}

func (c *changes) touch(e *state.Event) error {
	for _, queue := range [...]string{e.Queue, e.FromQueue} {
		if queue != "" {
			c.queues[queue] = true
		}
	}
	if len(e.RecordId) > 0 {
		return c.records.touch(e)
	}
	if len(e.JobId) == 0 {
		return nil
	}
	id, err := job.IDFromBytes(e.JobId)
	if err != nil {
		return fmt.Errorf("event %v of job number %d: %w", e.Type, e.JobNumber, err)
	}
	before := c.jobs[e.JobNumber]
	c.jobs[e.JobNumber] = touchedJob{
		id:        id,
		whole:     before.whole || !lightEvents[e.Type],
		rewrite:   before.rewrite || rewrites[e.Type],
		keyFreed:  before.keyFreed || e.Type == state.EventType_EVENT_MOVED || e.Type == state.EventType_EVENT_CONTINUED,
		restarted: before.restarted || e.Type == state.EventType_EVENT_REVIVED,
	}
	return nil
}

// nextDocument returns one more than the highest number that the changes touched.
func (c *changes) nextDocument() (next uint64) {
	for number := range c.jobs {
		next = max(next, number+1)
	}
	return next
}

// A flush yields after so many jobs. If it did not, a flush of thousands of jobs and a search would occupy two
// cores for as long as the scheduler lets them, ten milliseconds, during which no write is acknowledged.
//
// After each yield the flusher waits for its turn among the callers. Under the most load that a node bears, a
// view that yields after 32 jobs falls further behind than one that yields after 256. A view that is behind
// by more than lateAfter therefore yields less often, every few milliseconds.
const (
	yieldJobs     = 32
	lateYieldJobs = 256
	lateAfter     = time.Second
)

// jobsBetweenYields returns the number of jobs that a view which is behind by a time writes before it yields.
func jobsBetweenYields(behind time.Duration) int {
	if behind > lateAfter {
		return lateYieldJobs
	}
	return yieldJobs
}

// write makes the touched rows agree with the records, in order of rowid.
func (c *changes) write(w *writer, records *state.JobIterator, firstNew uint64, yieldEvery int) error {
	// Write the jobs.
	var empty emptyRows
	written := 0
	for part, err := range readAhead(loadJobs(records, c.sortedJobs(firstNew))) {
		if err != nil {
			return err
		}
		for _, l := range part {
			if written++; written%yieldEvery == 0 {
				runtime.Gosched()
			}
			if err := c.writeJob(w, records.Snapshot, l, &empty); err != nil {
				return fmt.Errorf("job %s: %w", l.id, err)
			}
		}
	}
	// Drop the rows of properties that jobs no longer have.
	if err := w.putRows(); err != nil {
		return err
	}
	if err := empty.forget(w); err != nil {
		return fmt.Errorf("what jobs do not have any more: %w", err)
	}
	// Write the queues, and then the other records.
	for _, name := range slices.Sorted(maps.Keys(c.queues)) {
		q, err := records.Queue(name)
		if err != nil {
			return err
		}
		if q == nil {
			err = w.forgetQueue(name)
		} else {
			err = w.queue(q)
		}
		if err != nil {
			return fmt.Errorf("queue %q: %w", name, err)
		}
	}
	return c.records.write(w, records)
}

// sortedJobs returns the touched jobs in the order of their numbers. Those from firstNew on have no rows yet.
func (c *changes) sortedJobs(firstNew uint64) []*loadedJob {
	jobs := make([]*loadedJob, 0, len(c.jobs))
	for _, number := range slices.Sorted(maps.Keys(c.jobs)) {
		jobs = append(jobs, &loadedJob{touchedJob: c.jobs[number], number: number, fresh: number >= firstNew})
	}
	return jobs
}

// writeJob writes the rows of a touched job, or drops them if the store has no job of its number.
func (c *changes) writeJob(w *writer, snap *state.Snapshot, l *loadedJob, empty *emptyRows) error {
	// A job that left for another shard and came back has a higher number. Its old row must go before the new
	// one is written, because an id is in one row only.
	if l.job == nil || l.job.Number > l.number {
		return w.forget(l.number)
	}
	if l.job.Number < l.number {
		return fmt.Errorf("it has number %d, the feed says %d", l.job.Number, l.number)
	}
	c.queues[l.job.Queue] = true
	more, err := w.job(snap, l)
	if err == nil && !l.fresh {
		empty.note(l.job, l.touchedJob, more)
	}
	return err
}

// job writes a job's rows: always its hot row and, if it has one, its row of extra; the document of a new
// job, and blobs and errors if they may have changed. more reports whether the job has properties that few
// jobs have.
func (w *writer) job(snap *state.Snapshot, l *loadedJob) (more bool, err error) {
	if err := w.hot(l.job, l.fresh); err != nil {
		return false, err
	}
	w.timeRanges.note(l.job)
	if more, err = w.extra(snap, l.job, l.id); err != nil {
		return false, err
	}
	if l.whole || l.rewrite || l.fresh {
		err = w.rest(snap, l)
	}
	return more, err
}

// rest writes a job's rows that are not made from its record alone.
func (w *writer) rest(snap *state.Snapshot, l *loadedJob) error {
	if l.fresh || l.rewrite {
		payload, err := composed(l.job, &l.blobs)
		if err != nil {
			return err
		}
		if err := w.document(l.job, l.id, payload, l.blobs[job.ResultSchema], l.fresh); err != nil {
			return err
		}
	}
	if err := w.work(l.job, l.blobs, l.fresh); err != nil {
		return err
	}
	if err := w.writeIterations(snap, l.job, l.touchedJob, l.fresh); err != nil {
		return err
	}
	return w.errors(l.number, l.errors, l.fresh)
}
