package view

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

const putBatchSQL = `
INSERT OR REPLACE INTO batch (id, total, succeeded, failed, cancelled, open, callback_queue, callback_payload, parent_id,
	created_ns, completed_ns)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

const putScheduleSQL = `
INSERT OR REPLACE INTO schedule (id, name, queue, cron, timezone, payload, unique_key, max_retries, priority, missed, jitter_ms,
	paused, last_run_ns, next_run_ns, created_ns)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// touchedRecords are the batches, schedules and resources that a piece of the feed touched. Each has a record
// of its own and concerns many jobs.
type touchedRecords struct {
	batches   map[job.ID]bool
	schedules map[job.ID]bool
	resources map[job.ID]bool
}

func newTouchedRecords() touchedRecords {
	return touchedRecords{batches: map[job.ID]bool{}, schedules: map[job.ID]bool{}, resources: map[job.ID]bool{}}
}

// touch notes the batch, schedule or resource that an event names.
func (t *touchedRecords) touch(e *state.Event) error {
	id, err := job.IDFromBytes(e.RecordId)
	if err != nil {
		return fmt.Errorf("event %v of record %x: %w", e.Type, e.RecordId, err)
	}
	switch e.Type {
	case state.EventType_EVENT_BATCH_CHANGED, state.EventType_EVENT_BATCH_COMPLETED, state.EventType_EVENT_BATCH_DELETED:
		t.batches[id] = true
	case state.EventType_EVENT_SCHEDULE_CHANGED, state.EventType_EVENT_SCHEDULE_DELETED:
		t.schedules[id] = true
	case state.EventType_EVENT_RESOURCE_CHANGED, state.EventType_EVENT_RESOURCE_DELETED:
		t.resources[id] = true
	case state.EventType_EVENT_ACCOUNT_CHANGED, state.EventType_EVENT_BUDGET_EXCEEDED, state.EventType_EVENT_BUDGET_ALERT,
		state.EventType_EVENT_ALERT_FIRED, state.EventType_EVENT_ALERT_RESOLVED:
		// The view has no rows for the values that these events change, such as the money that a budget has
		// spent.
	default:
		return fmt.Errorf("event %v of record %x: nobody knows what kind of record", e.Type, e.RecordId)
	}
	return nil
}

// write makes the rows of all touched records anew, and drops the rows of deleted ones.
func (t *touchedRecords) write(w *writer, records *state.JobIterator) error {
	for _, id := range inOrder(t.batches) {
		b, err := records.Batch(id)
		if err == nil {
			err = w.batch(records.Snapshot, id, b)
		}
		if err != nil {
			return fmt.Errorf("batch %s: %w", idWord(batchPrefix, id), err)
		}
	}
	for _, id := range inOrder(t.schedules) {
		s, err := records.Schedule(id)
		if err == nil {
			err = w.schedule(id, s)
		}
		if err != nil {
			return fmt.Errorf("schedule %s: %w", idWord(schedulePrefix, id), err)
		}
	}
	return t.writeResources(w, records)
}

func inOrder(ids map[job.ID]bool) []job.ID {
	return slices.SortedFunc(maps.Keys(ids), func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
}

// loadRecords writes the rows of every batch, schedule and resource.
func loadRecords(w *writer, snap *state.Snapshot) error {
	for b, err := range snap.Batches() {
		if err != nil {
			return err
		}
		if err := w.batch(snap, job.ID(b.Id), b); err != nil {
			return fmt.Errorf("batch %s: %w", idWord(batchPrefix, job.ID(b.Id)), err)
		}
	}
	for s, err := range snap.Schedules() {
		if err != nil {
			return err
		}
		if err := w.schedule(job.ID(s.Id), s); err != nil {
			return fmt.Errorf("schedule %s: %w", idWord(schedulePrefix, job.ID(s.Id)), err)
		}
	}
	return loadResources(w, snap)
}

// batch writes a batch's row, or drops it if b is nil.
func (w *writer) batch(snap *state.Snapshot, id job.ID, b *state.Batch) error {
	if b == nil {
		return w.exec(w.dropBatch, idWord(batchPrefix, id))
	}
	var payload any
	if b.CallbackPayload {
		blob, err := snap.BatchPayload(id)
		if err != nil {
			return err
		}
		if payload, err = blobText(blob); err != nil {
			return err
		}
	}
	parent, err := idText(batchPrefix, b.ParentId)
	if err != nil {
		return err
	}
	return w.exec(w.putBatch, idWord(batchPrefix, id), int64(b.Total), int64(b.Succeeded), int64(b.Failed), int64(b.Cancelled), b.Open,
		text(b.CallbackQueue), payload, parent, b.CreatedNs, nullable(b.CompletedNs))
}

// schedule writes a schedule's row, or drops it if s is nil.
func (w *writer) schedule(id job.ID, s *state.Schedule) error {
	if s == nil {
		return w.exec(w.dropSchedule, idWord(schedulePrefix, id))
	}
	payload, err := blobText(s.Payload)
	if err != nil {
		return err
	}
	next := s.NextRunNs
	if s.Paused {
		next = 0 // because the record of a paused schedule keeps the time of a run that will not happen
	}
	return w.exec(w.putSchedule, idWord(schedulePrefix, id), s.Name, s.Queue, s.Cron, s.Timezone, payload, text(s.UniqueKey),
		int64(s.MaxAttempts), int64(s.Priority), missedWord(s.Missed), s.JitterMs, s.Paused,
		nullable(s.LastRunNs), nullable(next), s.CreatedNs)
}

func missedWord(m state.Missed) string {
	switch m {
	case state.Missed_MISSED_SKIP:
		return "skip"
	case state.Missed_MISSED_ONCE:
		return "once"
	case state.Missed_MISSED_ALL:
		return "all"
	}
	return fmt.Sprintf("missed(%d)", int32(m))
}
