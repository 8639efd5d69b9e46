package state

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
)

// The tests of this package use these words. They drive a store without ops: update commits one entry, and
// begin starts an entry that the test commits itself. Entry n is at position n, and its clock is one
// nanosecond after the clock of entry n-1. Job n has the id idOf(n). create, edit, activate and complete
// change a job within an entry, as ops do. check recomputes every index and counter from the records. The
// workload is a fixed history of entries with every kind of record, and run applies it up to an entry, so
// that two stores at the same entry must be equal. In tests of followers, a node is a replica on such a
// store, and an op is the number of the job that it creates.

// testIncarnation is the incarnation of every test store.
var testIncarnation = entry.Incarnation{1, 2, 3}

// position returns the position of the n-th entry.
func position(n uint64) entry.Applied {
	return entry.Applied{Group: "g", Incarnation: testIncarnation, Index: n, Term: 1}
}

func header(clockNs int64) entry.Header {
	return entry.Header{Incarnation: testIncarnation, ClockNs: clockNs}
}

// begin starts the next entry, one nanosecond after the last.
func begin(s *Store) *Tx {
	h := s.Head()
	return s.Begin(position(h.Index+1), header(h.ClockNs+1))
}

// idOf returns the id of the n-th job.
func idOf(n int) job.ID {
	var id job.ID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func newJob(n int, queue string) *job.Job {
	id := idOf(n)
	return &job.Job{Id: id[:], Queue: queue, State: job.Pending, Priority: job.Normal, Retry: job.NewRetry()}
}

func lease(expiresNs int64) *job.Lease {
	return &job.Lease{Token: make([]byte, 16), WorkerId: "w", ExpiresNs: expiresNs, LengthMs: 1000}
}

const (
	enqueued  = EventType_EVENT_ENQUEUED
	started   = EventType_EVENT_STARTED
	completed = EventType_EVENT_COMPLETED
	failed    = EventType_EVENT_FAILED
	retrying  = EventType_EVENT_RETRYING
	scheduled = EventType_EVENT_SCHEDULED
	promoted  = EventType_EVENT_PROMOTED
	died      = EventType_EVENT_DEAD
)

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open("store", Options{FS: fs})
	must(t, err)
	return s
}

// openClosing opens a store in memory, and checks and closes it when the test ends.
func openClosing(t testing.TB) *Store {
	t.Helper()
	s := open(t, vfs.NewMem())
	t.Cleanup(func() {
		check(t, s)
		must(t, s.Close())
	})
	return s
}

func check(t testing.TB, s *Store) {
	t.Helper()
	v := s.Snapshot()
	must(t, v.Check())
	must(t, v.Close())
}

// update commits one entry.
func update(t testing.TB, s *Store, change func(tx *Tx)) {
	t.Helper()
	tx := begin(s)
	change(tx)
	must(t, tx.Commit())
}

func create(t testing.TB, tx *Tx, n int, queue string) *job.Job {
	t.Helper()
	j := newJob(n, queue)
	must(t, tx.CreateJob(j, enqueued))
	return j
}

// edit reads a job, changes it and puts it.
func edit(t testing.TB, tx *Tx, id job.ID, change func(j *job.Job), events ...EventType) {
	t.Helper()
	j, err := tx.Job(id)
	must(t, err)
	if j == nil {
		t.Fatalf("job %s is missing", id)
	}
	change(j)
	must(t, tx.PutJob(j, events...))
}

func activate(t testing.TB, tx *Tx, id job.ID, expiresNs int64) {
	t.Helper()
	edit(t, tx, id, func(j *job.Job) {
		j.State, j.Attempt, j.Lease = job.Active, j.Attempt+1, lease(expiresNs)
	}, started)
}

func complete(t testing.TB, tx *Tx, id job.ID) {
	t.Helper()
	edit(t, tx, id, func(j *job.Job) { j.State = job.Completed }, completed)
}

func nextReady(t testing.TB, tx *Tx, queue string) string {
	t.Helper()
	id, ok, err := tx.NextReady(queue)
	must(t, err)
	if !ok {
		return "none"
	}
	return fmt.Sprint(binary.BigEndian.Uint64(id[8:]))
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) {
		create(t, tx, 1, "q")
		create(t, tx, 2, "q")
		if got := nextReady(t, tx, "q"); got != "1" {
			t.Errorf("next ready is %s", got)
		}
	})
	if got := s.Fetchable("q"); got != 2 {
		t.Errorf("%d are fetchable", got)
	}
	update(t, s, func(tx *Tx) {
		activate(t, tx, idOf(1), 1e9)
		if got := nextReady(t, tx, "q"); got != "2" {
			t.Errorf("next ready is %s", got)
		}
	})
	update(t, s, func(tx *Tx) { complete(t, tx, idOf(1)) })
	check(t, s)
	j, err := s.Job(idOf(1))
	must(t, err)
	if j.State != job.Completed || j.Number != 1 || j.Attempt != 1 {
		t.Errorf("job 1 is %v", j)
	}
	v := s.Snapshot()
	defer v.Close()
	q, err := v.Queue("q")
	must(t, err)
	if q.Enqueued != 2 || q.Completed != 1 {
		t.Errorf("%d jobs were enqueued, %d completed", q.Enqueued, q.Completed)
	}
	if q.InState[job.Pending] != 1 || q.InState[job.Active] != 0 {
		t.Errorf("jobs by state: %v", q.InState)
	}
}
