package op_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// setUp changes a queue's record in an entry of its own, without an op.
func (w *world) setUp(queue string, change func(q *state.Queue)) {
	w.t.Helper()
	w.index++
	tx := w.store.Begin(at(w.index), entry.Header{Incarnation: incarnation, ClockNs: w.clockNs})
	q := tx.EnsureQueue(queue)
	change(q)
	tx.PutQueue(q, state.EventType_EVENT_QUEUE_CHANGED)
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

// replicated plays a scenario on two stores, one of which is closed and opened again at each step, and
// requires both to be consistent and equal byte for byte.
func replicated(t *testing.T, scenario func(w *world, step func())) {
	t.Helper()
	steady, restarted := newWorld(t), newWorld(t)
	scenario(steady, steady.check)
	scenario(restarted, restarted.restart)
	mine, theirs := content(t, steady.store), content(t, restarted.store)
	if len(mine) != len(theirs) {
		t.Fatalf("one store has %d pairs, the other %d", len(mine), len(theirs))
	}
	for i := range mine {
		if !bytes.Equal(mine[i].Key, theirs[i].Key) || !bytes.Equal(mine[i].Value, theirs[i].Value) {
			t.Fatalf("pair %d differs: %q, %q", i, mine[i], theirs[i])
		}
	}
}

// states returns the states of jobs, one word each.
func (w *world) states(ids ...[]byte) string {
	w.t.Helper()
	var words []string
	for _, id := range ids {
		words = append(words, w.job(id).State.Word())
	}
	return strings.Join(words, " ")
}

func (w *world) job(id []byte) *job.Job {
	w.t.Helper()
	j, err := w.store.Job(job.ID(id))
	if err != nil || j == nil {
		w.t.Fatalf("job %s: %v, %v", job.ID(id), j, err)
	}
	return j
}

// refused applies an op that must be refused. The op must not write a byte except the log's position.
func (w *world) refused(o op.Op, code api.Code, says string) *api.Error {
	w.t.Helper()
	before := settled(w.t, w)
	err, ok := w.apply(o)[0].(*api.Error)
	if !ok || err.Code != code || !strings.Contains(err.Message, says) {
		w.t.Fatalf("answered %v, want %s with %q", err, code, says)
	}
	if !bytes.Equal(before, settled(w.t, w)) {
		w.t.Errorf("%s was refused and wrote something", says)
	}
	return err
}

// The waiting jobs count, and all new jobs of an op count together.
func TestAFullQueueRefuses(t *testing.T) {
	t.Parallel()
	replicated(t, func(w *world, step func()) {
		w.setUp("q", func(q *state.Queue) { q.MaxLength = 4 })
		first := w.newJobs("q", 3)
		first.Jobs[1].ScheduledNs = w.clockNs + int64(time.Hour)
		first.Jobs[2].Opt().UniqueKey, first.Jobs[2].Opt().UniquePeriodMs = "k", 1000
		one[*op.EnqueueResult](w, first)
		step()
		err := w.refused(w.newJobs("q", 2), api.QueueFull, `queue "q" is full: at most 4 jobs may wait in it, and 1 of 2 do not fit`)
		if err.RetryAfter <= 0 {
			t.Error("nothing is said of when to try again")
		}
		// All or none, other queues included.
		mixed := w.newJobs("other", 1)
		more := w.newJobs("q", 2)
		mixed.Jobs, mixed.Meta.Ids = append(mixed.Jobs, more.Jobs...), append(mixed.Meta.Ids, more.Meta.Ids...)
		w.refused(mixed, api.QueueFull, "1 of 2 do not fit")
		// A duplicate takes no room, nor does a postponed job.
		fits := w.newJobs("q", 3)
		for _, nj := range fits.Jobs[1:] {
			nj.Opt().DebounceKey, nj.Opt().DebounceMs = "d", 1000
		}
		fits.Jobs[0].Opt().UniqueKey, fits.Jobs[0].Opt().UniquePeriodMs = "k", 1000
		one[*op.EnqueueResult](w, fits)
		step()
		w.refused(w.newJobs("q", 1), api.QueueFull, "is full")
		// A worker's job does not wait.
		leased := one[*op.FetchResult](w, w.fetch("q", 1))
		one[*op.EnqueueResult](w, w.newJobs("q", 1))
		w.refused(w.newJobs("q", 1), api.QueueFull, "is full")
		// A failed job waits, even beyond the limit, because a failure is never refused.
		w.apply(w.failing(leased.Jobs...))
		step()
		w.refused(w.newJobs("q", 1), api.QueueFull, "1 of 1 do not fit")
	})
}

func TestAFullQueueDropsTheOldest(t *testing.T) {
	t.Parallel()
	replicated(t, func(w *world, step func()) {
		jobs := w.newJobs("q", 5)
		for i, priority := range []uint32{job.High, job.Normal, job.Critical, job.Normal, job.Normal} {
			jobs.Jobs[i].Priority = priority
		}
		jobs.Jobs[4].ScheduledNs = w.clockNs + 1
		one[*op.EnqueueResult](w, jobs)
		w.setUp("q", func(q *state.Queue) {
			q.MaxLength, q.Overflow = 5, job.Overflow_OVERFLOW_DROP_OLDEST
		})
		step()
		ids := jobs.Meta.Ids
		one[*op.EnqueueResult](w, w.newJobs("q", 1))
		if got := w.states(ids...); got != "pending dead pending pending scheduled" {
			t.Fatalf("after one more: %s", got)
		}
		step()
		// The older of the two normal jobs goes first, then the job that was just created, then the
		// next urgent one.
		urgent := w.newJobs("q", 3)
		for _, nj := range urgent.Jobs {
			nj.Priority = job.Critical
		}
		one[*op.EnqueueResult](w, urgent)
		if got := w.states(ids...); got != "dead dead pending dead scheduled" {
			t.Fatalf("after three more: %s", got)
		}
		step()
		// Four are pending: one more op of five finds no room, though the queue would be
		// emptied for it.
		w.refused(w.newJobs("q", 5), api.QueueFull, "5 of 5 do not fit")
		one[*op.EnqueueResult](w, w.newJobs("q", 4))
		step()
		if got := w.states(append(urgent.Meta.Ids, ids[2], ids[4])...); got != "dead dead dead dead scheduled" {
			t.Fatalf("after four more: %s", got)
		}
		// A lowered limit drops only as many jobs as the op adds.
		w.setUp("q", func(q *state.Queue) { q.MaxLength = 1 })
		one[*op.EnqueueResult](w, w.newJobs("q", 1))
		step()
		if q := queueRecord(w, "q"); q.InState[job.Pending] != 4 || q.Dead != 9 {
			t.Errorf("%d are pending and %d died", q.InState[job.Pending], q.Dead)
		}
	})
}

// An op with more jobs than the limit never has room, whatever is fetched or dropped, so its client is not
// told to try again. For as many jobs as the limit, drop_oldest makes room.
func TestMoreJobsThanMayWait(t *testing.T) {
	t.Parallel()
	replicated(t, func(w *world, step func()) {
		for _, overflow := range []job.Overflow{job.Overflow_OVERFLOW_REJECT, job.Overflow_OVERFLOW_DROP_OLDEST} {
			name := "q" + overflow.String()
			w.setUp(name, func(q *state.Queue) { q.MaxLength, q.Overflow = 3, overflow })
			w.refused(w.newJobs(name, 5), api.Conflict, "takes no 5 jobs at once: at most 3 jobs may wait in it")
			older := w.newJobs(name, 3)
			one[*op.EnqueueResult](w, older)
			w.refused(w.newJobs(name, 4), api.Conflict, "send at most 3 at once, or raise max_length")
			if overflow == job.Overflow_OVERFLOW_REJECT {
				w.refused(w.newJobs(name, 3), api.QueueFull, "3 of 3 do not fit")
				continue
			}
			one[*op.EnqueueResult](w, w.newJobs(name, 3))
			step()
			if got := w.states(older.Meta.Ids...); got != "dead dead dead" {
				t.Errorf("after as many as may wait: %s", got)
			}
			w.setUp(name, func(q *state.Queue) { q.MaxLength = 2 }) // while more wait
			w.refused(w.newJobs(name, 3), api.Conflict, "send at most 2 at once")
		}
	})
}

func queueRecord(w *world, name string) *state.Queue {
	w.t.Helper()
	v := w.store.Snapshot()
	defer v.Close()
	q, err := v.Queue(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return q
}

// A dropped job keeps the reason for its death and its earlier errors.
func TestWhatADroppedJobSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.newJobs("q", 1)
	o.Jobs[0].Retry.Backoff = job.BackoffNone
	w.apply(o)
	leased := one[*op.FetchResult](w, w.fetch("q", 1)).Jobs
	w.apply(w.failing(leased...))
	w.setUp("q", func(q *state.Queue) { q.MaxLength, q.Overflow = 1, job.Overflow_OVERFLOW_DROP_OLDEST })
	w.clockNs += int64(time.Second)
	w.apply(w.newJobs("q", 1))
	v := w.store.Snapshot()
	defer v.Close()
	errs, err := v.Errors(job.ID(o.Meta.Ids[0]))
	if err != nil || len(errs) != 2 {
		t.Fatalf("it has the errors %v, %v", errs, err)
	}
	last := errs[1]
	if errs[0].Error != "broken" || last.Error != "dropped: queue full" {
		t.Errorf("its errors are %v", errs)
	}
	if last.Outcome != job.Outcome_OUTCOME_DROPPED || last.CreatedNs != w.clockNs {
		t.Errorf("its last error is %v of %d, want one of %d", last.Outcome, last.CreatedNs, w.clockNs)
	}
	j := w.job(o.Meta.Ids[0])
	if j.FailedNs != w.clockNs || j.SettledNs == 0 || j.Errors != 2 {
		t.Errorf("it is %v", j)
	}
	w.check()
}

// An enqueue whose key is held by a job that the same op drops still returns that holder.
func TestADuplicateOfADroppedJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	holder := w.newJobs("q", 1)
	holder.Jobs[0].Opt().UniqueKey, holder.Jobs[0].Opt().UniquePeriodMs = "k", 1000
	w.apply(holder)
	w.setUp("q", func(q *state.Queue) { q.MaxLength, q.Overflow = 1, job.Overflow_OVERFLOW_DROP_OLDEST })
	o := w.newJobs("q", 2)
	o.Jobs[1].Opt().UniqueKey, o.Jobs[1].Opt().UniquePeriodMs = "k", 1000
	r := one[*op.EnqueueResult](w, o)
	if e := r.Jobs[1]; e.Found != op.Found_FOUND_DUPLICATE || !bytes.Equal(e.Id, holder.Meta.Ids[0]) || e.State != job.Dead {
		t.Errorf("answered %v", r)
	}
	w.check()
}

// A queue without a limit accepts any op however full it is, and the limit of each queue of an op is checked.
func TestEachQueueHasItsOwnBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setUp("a", func(q *state.Queue) { q.MaxLength = 2 })
	w.setUp("b", func(q *state.Queue) { q.MaxLength = 1 })
	o := &op.Enqueue{Meta: &op.Meta{}}
	for i := range 5 {
		more := w.newJobs([]string{"a", "free", "b", "a", "free"}[i], 1)
		o.Jobs, o.Meta.Ids = append(o.Jobs, more.Jobs...), append(o.Meta.Ids, more.Meta.Ids...)
	}
	one[*op.EnqueueResult](w, o)
	for _, name := range []string{"a", "b"} {
		w.refused(w.newJobs(name, 1), api.QueueFull, fmt.Sprintf("queue %q is full", name))
	}
	one[*op.EnqueueResult](w, w.newJobs("free", 100))
	w.check()
}

func TestAQueueThatIsBeingDeletedTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.newJobs("q", 1)
	o.Jobs[0].Opt().UniqueKey, o.Jobs[0].Opt().UniquePeriodMs = "k", 1000
	w.apply(o)
	w.setUp("q", func(q *state.Queue) { q.Deleting = true })
	w.refused(w.newJobs("q", 1), api.Conflict, "is being deleted")
	again := w.newJobs("q", 1)
	again.Jobs[0].Opt().UniqueKey, again.Jobs[0].Opt().UniquePeriodMs = "k", 1000
	w.refused(again, api.Conflict, "is being deleted")
	// A repeat still gets the answer of an op from before the deletion.
	one[*op.EnqueueResult](w, o)
}
