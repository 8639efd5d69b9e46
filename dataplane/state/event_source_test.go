package state

import (
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

// TestEventSource asks the running entry for the records that it has just written, and asks the store for
// these records after the commit.
func TestEventSource(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	id := idOf(1)
	asked := func(from interface {
		Progress(id job.ID) (*job.Blob, error)
		AttemptError(id job.ID, attempt uint32) (*job.AttemptError, error)
	}, progress, text string) {
		t.Helper()
		b, err := from.Progress(id)
		must(t, err)
		e, err := from.AttemptError(id, 1)
		must(t, err)
		none, err := from.AttemptError(id, 2)
		must(t, err)
		if string(b.GetData()) != progress || e.GetError() != text || none != nil {
			t.Errorf("%T: progress %q, error %q, of another attempt %v", from, b.GetData(), e.GetError(), none)
		}
	}
	update(t, s, func(tx *Tx) {
		asked(tx, "", "")
		j := create(t, tx, 1, "q")
		asked(tx, "", "")
		must(t, tx.PutBlob(j, job.Progress, &job.Blob{Data: []byte("1")}))
		must(t, tx.PutError(j, &job.AttemptError{Attempt: 1, Error: "first"}))
		must(t, tx.PutJob(j))
		asked(tx, "1", "first")
	})
	asked(s, "1", "first")
	update(t, s, func(tx *Tx) {
		asked(tx, "1", "first") // the entry has not touched them
		edit(t, tx, id, func(j *job.Job) {
			must(t, tx.PutError(j, &job.AttemptError{Attempt: 1, Error: "again"}))
		})
		asked(tx, "1", "again")
	})
	v := s.Snapshot()
	asked(v, "1", "again")
	must(t, v.Close())
}

// TestHistory checks that a job's history survives restarts, leaves out repeating events and has the newest of
// several progress reports.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	id := idOf(1)
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	update(t, s, func(tx *Tx) { activate(t, tx, id, latest-1) })
	for range 3 {
		update(t, s, func(tx *Tx) {
			edit(t, tx, id, func(*job.Job) {}, EventType_EVENT_RENEWED, EventType_EVENT_PROGRESS, EventType_EVENT_CHECKPOINTED)
		})
	}
	update(t, s, func(tx *Tx) {
		edit(t, tx, id, func(j *job.Job) {
			j.State, j.Lease, j.FailedNs = job.Retrying, nil, tx.ClockNs()
			j.ScheduledNs = latest - 1
		}, failed, retrying)
	})
	update(t, s, func(tx *Tx) {
		j, err := tx.Job(id)
		must(t, err)
		must(t, tx.MoveJob(j, "other"))
	})
	j, err := s.Job(id)
	must(t, err)
	past, dropped, err := j.PastEvents()
	must(t, err)
	var got []EventType
	for i, p := range past {
		got = append(got, EventType(p.Type))
		if i > 0 && p.AtNs < past[i-1].AtNs {
			t.Errorf("%v", past)
		}
	}
	want := []EventType{enqueued, started, EventType_EVENT_PROGRESS, failed, retrying, EventType_EVENT_MOVED}
	if dropped != 0 || len(got) != len(want) {
		t.Fatalf("%v, %d dropped", got, dropped)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
