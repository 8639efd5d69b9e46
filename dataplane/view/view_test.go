package view

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// sameAsStore compares every document that a search finds with the document made from the store's records.
func sameAsStore(t *testing.T, h *shard) {
	t.Helper()
	h.settle()
	wrong, err := unlikeStore(t, h)
	must(t, err)
	if wrong != "" {
		t.Fatal(wrong)
	}
}

// unlikeStore searches for all jobs and describes the first difference from the store. The error is the
// search's.
func unlikeStore(t *testing.T, h *shard) (wrong string, err error) {
	t.Helper()
	page, err := h.view.Search(t.Context(), Query{Limit: job.MaxSearchLimit})
	if err != nil {
		return "", err
	}
	snap := h.store.Snapshot()
	defer snap.Close()
	stored := 0
	for range snap.Jobs() {
		stored++
	}
	if len(page.Jobs) != stored || page.Total != int64(stored) {
		return fmt.Sprintf("the search finds %d jobs and counts %d, the store has %d", len(page.Jobs), page.Total, stored), nil
	}
	for _, found := range page.Jobs {
		id, err := job.ParseID(found.ID)
		must(t, err)
		want, err := Read(snap, id)
		must(t, err)
		a, err := json.Marshal(found)
		must(t, err)
		b, err := json.Marshal(want)
		must(t, err)
		if string(a) != string(b) {
			return fmt.Sprintf("the view has\n%s\nand the store\n%s", a, b), nil
		}
	}
	return "", nil
}

func TestEveryTransitionIsProjected(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	var id job.ID
	steps := []struct {
		name string
		do   func()
		want job.State
	}{
		{"scheduled", func() {
			h.commit(func(tx *state.Tx) {
				tx.EnsureQueue("q")
				j := h.newJob(tx, "q")
				id = job.ID(j.Id)
				j.State, j.ScheduledNs = job.Scheduled, tx.ClockNs()+int64(time.Hour)
				j.Tags = []*job.Pair{{Name: "a", Value: "1"}, {Name: "b", Value: "ü\"\x00"}}
				j.Headers = []*job.Pair{{Name: "traceparent", Value: "00-1"}}
				must(t, tx.PutBlob(j, job.Payload, payload(`{"to":"x"}`)))
				must(t, tx.PutBlob(j, job.Checkpoint, payload(`0`)))
				must(t, tx.CreateJob(j, evScheduled))
			})
		}, job.Scheduled},
		{"promoted", func() {
			h.change(id, func(_ *state.Tx, j *job.Job) { j.State = job.Pending }, evPromoted)
		}, job.Pending},
		{"fetched", func() { h.fetch(id, "w1") }, job.Active},
		{"returned", func() {
			h.change(id, func(_ *state.Tx, j *job.Job) { j.State, j.Attempt = job.Pending, j.Attempt-1 }, evReturned)
		}, job.Pending},
		{"fetched again", func() { h.fetch(id, "w2") }, job.Active},
		{"renewed", func() {
			h.change(id, func(_ *state.Tx, j *job.Job) { j.Lease.ExpiresNs += int64(time.Minute) }, evRenewed)
		}, job.Active},
		{"progress and usage", func() {
			h.change(id, func(tx *state.Tx, j *job.Job) {
				must(t, tx.PutBlob(j, job.Progress, payload(`{"current":1}`)))
				j.Usage = &job.Usage{InputTokens: 5, Model: "m", CostNanoUsd: 1_234_567_891}
			}, evRenewed, evProgress)
		}, job.Active},
		{"checkpoint", func() {
			h.change(id, func(tx *state.Tx, j *job.Job) { must(t, tx.PutBlob(j, job.Checkpoint, payload(`[2]`))) }, evCheckpointed)
		}, job.Active},
		{"failed", func() { h.fail(id, job.Retrying, "smtp") }, job.Retrying},
		{"retried", func() {
			h.change(id, func(_ *state.Tx, j *job.Job) { j.State = job.Pending }, evPromoted)
		}, job.Pending},
		{"fetched for the second attempt", func() { h.fetch(id, "w3") }, job.Active},
		{"reclaimed", func() {
			h.change(id, func(tx *state.Tx, j *job.Job) {
				j.State, j.FailedNs, j.LeaseExpired = job.Pending, tx.ClockNs(), true
				must(t, tx.PutError(j, &job.AttemptError{Attempt: j.Attempt, Error: "lease expired", Backtrace: "at x", CreatedNs: tx.ClockNs(), StartedNs: j.StartedNs, Outcome: job.Reclaimed}))
			}, evReclaimed)
		}, job.Pending},
		{"fetched for the third attempt", func() { h.fetch(id, "w4") }, job.Active},
		{"completed", func() { h.ack(id, `{"ok":true}`) }, job.Completed},
	}
	for _, s := range steps {
		s.do()
		sameAsStore(t, h)
		page, err := h.view.Search(t.Context(), Query{Queue: "q", States: []job.State{s.want}})
		must(t, err)
		if len(page.Jobs) != 1 || page.Total != 1 {
			t.Fatalf("%s: found %d jobs of state %s, counted %d", s.name, len(page.Jobs), s.want.Word(), page.Total)
		}
	}
	checkHistory(t, h)
}

// checkHistory checks the document of the job after the steps above.
func checkHistory(t *testing.T, h *shard) {
	t.Helper()
	page, err := h.view.Search(t.Context(), Query{})
	must(t, err)
	j := page.Jobs[0]
	if len(j.Errors) != 2 {
		t.Fatalf("errors %+v, want two", j.Errors)
	}
	want, last := j, "lease expired"
	want.LastError, want.CostUSD, want.LeaseExpiresAt = &last, 1_234_567_891, nil
	want.Progress, want.Checkpoint = json.RawMessage(`{"current":1}`), json.RawMessage(`[2]`)
	if diff := cmp.Diff(want, j); diff != "" {
		t.Fatalf("the job (-want +got):\n%s", diff)
	}
	var outcomes []string
	for _, a := range j.Attempts {
		outcomes = append(outcomes, fmt.Sprintf("%d %s", a.Attempt, *a.Outcome))
	}
	if want := []string{"1 failed", "2 lease_expired", "3 completed"}; !reflect.DeepEqual(outcomes, want) {
		t.Fatalf("attempts %q, want %q", outcomes, want)
	}
	if h.logged.rebuilt("") != 1 { // the first build makes the file
		t.Fatalf("the view was built again:\n%s", h.logged)
	}
}

func TestDeadJobShowsWhoFailedIt(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	id := h.enqueue("q", 1)[0]
	h.fetch(id, "w")
	h.fail(id, job.Dead, "boom")
	sameAsStore(t, h)
	page, err := h.view.Search(t.Context(), Query{States: []job.State{job.Dead}})
	must(t, err)
	last := page.Jobs[0].Attempts[0]
	worker, outcome := "w", api.OutcomeFailed
	want := last
	want.WorkerID, want.Outcome = &worker, &outcome
	if diff := cmp.Diff(want, last); diff != "" {
		t.Fatalf("the attempt (-want +got):\n%s", diff)
	}
	if last.StartedAt == nil {
		t.Error("the attempt has no start")
	}
}

func TestErrorsAtTheirBound(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	id := h.enqueue("q", 1)[0]
	h.commit(func(tx *state.Tx) {
		h.edit(tx, id, func(tx *state.Tx, j *job.Job) {
			for i := range job.MaxErrorsKept + 3 {
				must(t, tx.PutError(j, &job.AttemptError{Attempt: uint32(i + 1), Error: fmt.Sprint("e", i+1), CreatedNs: int64(i)}))
			}
		}, evFailed)
	})
	sameAsStore(t, h)
	if job.MaxErrorsKept > 1<<errorShift {
		t.Fatalf("%d errors do not fit into ids that leave room for %d", job.MaxErrorsKept, 1<<errorShift)
	}
}

func TestCoalescing(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.settle()
	h.closeView()
	id := h.enqueue("q", 1)[0]
	for range 50 {
		h.fetch(id, "w")
		h.change(id, func(_ *state.Tx, j *job.Job) { j.State, j.Attempt = job.Pending, j.Attempt-1 }, evReturned)
	}
	snap := h.store.Snapshot()
	defer snap.Close()
	b, err := readChanges(snap, cursor{position: position{seq: 1}})
	must(t, err)
	if len(b.jobs) != 1 || b.next.seq != snap.Head().FeedNextSeq {
		t.Fatalf("%d events touched %d jobs and read up to %d of %d", 101, len(b.jobs), b.next.seq, snap.Head().FeedNextSeq)
	}
	h.openView()
	sameAsStore(t, h)
}

// TestFlushIsBounded lets one flush reach its bound and end there.
func TestFlushIsBounded(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.settle()
	h.closeView()
	for range 3 {
		h.enqueue("q", maxFlushJobs/2)
	}
	snap := h.store.Snapshot()
	defer snap.Close()
	b, err := readChanges(snap, cursor{position: position{seq: 1}})
	must(t, err)
	if len(b.jobs) != maxFlushJobs || b.next.seq != maxFlushJobs+1 {
		t.Fatalf("a flush takes %d jobs and ends at %d", len(b.jobs), b.next.seq)
	}
	h.openView()
	h.settle()
	q, err := h.view.Queue("q")
	must(t, err)
	if q.Pending != 3*maxFlushJobs/2 || q.Enqueued != 3*maxFlushJobs/2 {
		t.Fatalf("%+v", q)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 1)
	h.settle()

	// Wait for an entry without events: nothing notifies the view, but the wait still ends.
	index := h.commit(func(*state.Tx) {})
	must(t, h.view.Wait(t.Context(), index))

	// Wait for an index that comes later.
	done := make(chan error, 1)
	go func() { done <- h.view.Wait(context.Background(), index+1) }()
	h.commit(func(*state.Tx) {})
	must(t, <-done)

	// Wait for an index that never comes: the caller may leave.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.view.Wait(ctx, index+100); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// Or the caller gets VIEW_BEHIND.
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := h.view.Wait(ctx, index+100); api.CodeOf(err) != api.ViewBehind || ctx.Err() == nil {
		t.Fatal(err)
	}
}

// TestWaitPrompts waits on a view that would otherwise not flush for an hour.
func TestWaitPrompts(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.reopen(func() { h.flushEvery = time.Hour })
	for range 5 {
		h.enqueue("q", 1)
		sameAsStore(t, h)
	}
}

func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	v := h.view
	done := make(chan error, 1)
	go func() { done <- v.Wait(context.Background(), 1000) }()
	h.closeView()
	if err := <-done; api.CodeOf(err) != api.Unhealthy {
		t.Fatal(err)
	}
	must(t, v.Close()) // a second time
	if err := v.Rebuild(t.Context()); !errors.Is(err, errClosed) {
		t.Fatal(err)
	}
	if _, err := v.Search(t.Context(), Query{}); api.CodeOf(err) != api.ViewBehind {
		t.Fatal(err)
	}
}

func TestLag(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.settle()
	if events, age := h.view.Lag(); events != 0 || age != 0 {
		t.Fatalf("%d events, %v", events, age)
	}
	// A blocked view falls behind.
	unlock := lockFile(t, h)
	h.enqueue("q", 7)
	eventually(t, "the view to be behind for a while", func() bool {
		events, age := h.view.Lag()
		return events == 7 && age > 20*time.Millisecond
	})
	unlock()
	h.settle()
	if events, age := h.view.Lag(); events != 0 || age != 0 {
		t.Fatalf("%d events, %v", events, age)
	}
}

// TestLagOfAWithdrawnFile withdraws a file that showed everything, while no new file can be built. The age counts although
// the feed does not grow.
func TestLagOfAWithdrawnFile(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 3)
	h.settle()
	obstacle := h.file() + newSuffix
	must(t, os.MkdirAll(filepath.Join(obstacle, "not empty"), 0o700))
	if err := h.view.Rebuild(t.Context()); err == nil {
		t.Fatal("a new file was built")
	}
	reason := "a test"
	h.view.damage.Store(&reason)
	_ = h.view.Rebuild(t.Context()) // wakes the flusher, which fails again
	eventually(t, "an age of the missing events", func() bool {
		events, age := h.view.Lag()
		return events >= 3 && age > 20*time.Millisecond
	})
	must(t, os.RemoveAll(obstacle))
	must(t, h.view.Rebuild(t.Context()))
	h.settle()
	if events, age := h.view.Lag(); events != 0 || age != 0 {
		t.Fatalf("%d events, %v", events, age)
	}
}

// TestLiveEqualsRebuilt runs random histories. It compares the view that followed them, with restarts, with a
// view built from the resulting state.
func TestLiveEqualsRebuilt(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := newShard(t)
			h.randomHistory(rand.New(rand.NewPCG(seed, 1)), 150)
			live := h.dump()
			recount(t, h)
			must(t, h.view.Rebuild(t.Context()))
			if rebuilt := h.dump(); rebuilt != live {
				t.Fatalf("the live view and the rebuilt one differ:\n%s", firstDifference(live, rebuilt))
			}
			if live == "" {
				t.Fatal("the history left nothing")
			}
			sameAsStore(t, h)
			sameRecords(h)
		})
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + "\n" + y[i]
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

// randomHistory commits entries of random changes, with pauses in which the view flushes, and restarts the
// view.
func (h *shard) randomHistory(r *rand.Rand, entries int) {
	h.t.Helper()
	var ids []job.ID
	pick := func() job.ID { return ids[r.IntN(len(ids))] }
	for range entries {
		switch n := r.IntN(20); {
		case n == 0:
			h.settle()
		case n == 1:
			h.reopen(nil)
		case n == 2:
			h.commit(func(tx *state.Tx) {
				q := tx.EnsureQueue(fmt.Sprint("q", r.IntN(4)))
				q.Paused, q.MaxConcurrency = r.IntN(2) == 0, uint32(r.IntN(3))
				tx.PutQueue(q, evChanged)
			})
		case n < 8 || len(ids) == 0:
			ids = append(ids, h.enqueue(fmt.Sprint("q", r.IntN(4)), 1+r.IntN(5))...)
		case n < 11:
			ids = append(ids, h.enqueueRich(r, fmt.Sprint("q", r.IntN(4))))
		case n < 13:
			h.commit(func(tx *state.Tx) { h.randomGroup(tx, r) })
		default:
			h.commit(func(tx *state.Tx) {
				for range 1 + r.IntN(4) {
					h.randomStep(tx, r, pick())
				}
			})
		}
	}
}

// randomStep applies one of the changes that a job's state allows.
func (h *shard) randomStep(tx *state.Tx, r *rand.Rand, id job.ID) {
	j, err := tx.Job(id)
	must(h.t, err)
	if j == nil || h.randomTurn(tx, r, j) {
		return
	}
	switch j.State {
	case job.Pending:
		h.edit(tx, id, fetched(fmt.Sprint("w", r.IntN(3))), evStarted)
	case job.Retrying:
		h.edit(tx, id, func(_ *state.Tx, j *job.Job) { j.State = job.Pending }, evPromoted)
	case job.Active:
		h.randomEnd(tx, r, id)
	}
}

func (h *shard) randomEnd(tx *state.Tx, r *rand.Rand, id job.ID) {
	fail := func(tx *state.Tx, j *job.Job) {
		j.FailedNs = tx.ClockNs()
		must(h.t, tx.PutError(j, &job.AttemptError{
			Attempt: j.Attempt, Error: fmt.Sprint("e", r.IntN(9)), CreatedNs: tx.ClockNs(),
			WorkerId: j.Lease.GetWorkerId(), StartedNs: j.StartedNs, Outcome: job.Outcome(r.IntN(len(job.Outcome_name))),
		}))
	}
	switch r.IntN(6) {
	case 0:
		h.edit(tx, id, func(tx *state.Tx, j *job.Job) { fail(tx, j); j.State, j.ScheduledNs = job.Retrying, tx.ClockNs()+5 }, evFailed, evRetrying)
	case 1:
		h.edit(tx, id, func(tx *state.Tx, j *job.Job) { fail(tx, j); j.State = job.Dead; paid(j) }, evFailed, evDead)
	case 2:
		h.edit(tx, id, func(_ *state.Tx, j *job.Job) { j.State, j.Attempt = job.Pending, j.Attempt-1 }, evReturned)
	case 3:
		h.edit(tx, id, func(tx *state.Tx, j *job.Job) {
			j.Lease.ExpiresNs++
			j.Usage = &job.Usage{OutputTokens: r.Int64N(100), CostNanoUsd: r.Int64N(1e9)}
			must(h.t, tx.PutBlob(j, job.Progress, payload(fmt.Sprint(r.IntN(100)))))
		}, evRenewed, evProgress)
	default:
		h.edit(tx, id, func(tx *state.Tx, j *job.Job) {
			j.State, j.CompletedNs = job.Completed, tx.ClockNs()
			paid(j)
			if r.IntN(2) == 0 {
				must(h.t, tx.PutBlob(j, job.Result, payload(`"done"`)))
			}
		}, evCompleted)
	}
}

// recount compares the counters that the view shows with its own rows.
func recount(t *testing.T, h *shard) {
	t.Helper()
	queues, err := h.view.Queues(t.Context(), nil)
	must(t, err)
	for _, q := range queues {
		for state, shown := range map[job.State]int64{
			job.Pending: q.Pending, job.Active: q.Active, job.Completed: q.Completed, job.Dead: q.Dead, job.Retrying: q.Retrying,
		} {
			page, err := h.view.Search(t.Context(), Query{Queue: q.Name, States: []job.State{state}, Limit: job.MaxSearchLimit})
			must(t, err)
			if int64(len(page.Jobs)) != shown || page.Total != shown {
				t.Errorf("queue %s shows %d %s jobs, counts %d and has %d", q.Name, shown, state.Word(), page.Total, len(page.Jobs))
			}
		}
	}
}

// TestOpen opens a view as a cell does, in a directory whose name has a meaning in a URI.
func TestOpen(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 3)
	h.closeView()
	h.dir = filepath.Join(t.TempDir(), "a b?mode=ro&x#y%41", "view")
	v, err := Open(h.dir, h.store, Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	h.view = v
	h.settle()
	if _, err := os.Stat(h.file()); err != nil {
		t.Fatal(err)
	}
	if seq, index := v.Cursor(); seq != h.store.Head().FeedNextSeq || index != h.store.Head().Index {
		t.Fatalf("the cursor is at %d, %d", seq, index)
	}
	// A directory that cannot be created.
	if _, err := Open(h.file(), h.store, Options{}); err == nil {
		t.Fatal("opened a view in a file")
	}
}

// TestAnErrorOfNoAttempt expires jobs that wait. This ends no attempt, so the error has none, neither in
// documents nor in the tables that others read.
func TestAnErrorOfNoAttempt(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	expire := func(id job.ID) {
		h.change(id, func(tx *state.Tx, j *job.Job) {
			must(t, tx.PutError(j, &job.AttemptError{Attempt: j.Attempt + 1, Error: "expired", CreatedNs: tx.ClockNs(), Outcome: job.Expired}))
			j.State, j.FailedNs = job.Dead, tx.ClockNs()
		}, evDead)
	}
	tried := h.enqueue("q", 1)[0]
	h.fetch(tried, "w")
	h.fail(tried, job.Retrying, "boom")
	expire(tried)
	never := h.enqueue("never", 1)[0]
	expire(never)
	sameAsStore(t, h)
	for queue, want := range map[string][]int{"q": {1, 0}, "never": {0}} {
		page, err := h.view.Search(t.Context(), Query{Queue: queue})
		must(t, err)
		var errs, attempts []int
		for i, e := range page.Jobs[0].Errors {
			errs, attempts = append(errs, e.Attempt), append(attempts, page.Jobs[0].Attempts[i].Attempt)
		}
		if !slices.Equal(errs, want) || !slices.Equal(attempts, want) || *page.Jobs[0].LastError != "expired" {
			t.Errorf("%s: the errors are of attempts %v and %v, want %v", queue, errs, attempts, want)
		}
	}
	must(t, h.view.read(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		var of int
		must(t, tx.QueryRowContext(ctx, "SELECT sum(attempt) FROM job_errors").Scan(&of))
		if of != 1 {
			t.Errorf("the attempts of job_errors sum to %d, want 1", of)
		}
		return nil
	}))
}
