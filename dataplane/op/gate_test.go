package op_test

import (
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// parked builds a world in which n jobs of queue q wait at the gate of provider p, and one job that passed
// runs.
func parked(t *testing.T, n int) *world {
	t.Helper()
	w := newWorld(t)
	w.apply(w.putProvider("p", &state.Provider{Requests: 1}))
	w.apply(w.jobsFor("p", "q", n+1))
	if got := one[*op.FetchResult](w, w.fetch("q", 100)).Jobs; len(got) != 1 {
		t.Fatalf("%d jobs went through", len(got))
	}
	return w
}

// counts requires the numbers of pending jobs in q, of those at gates and of the fetchable ones.
func (w *world) counts(pending, gated uint64, fetchable int) {
	w.t.Helper()
	q := queueRecord(w, "q")
	if q.InState[job.Pending] != pending || q.Gated != gated || w.store.Fetchable("q") != fetchable {
		w.t.Errorf("%d are pending, %d at gates, %d fetchable; want %d, %d, %d", q.InState[job.Pending], q.Gated, w.store.Fetchable("q"), pending, gated, fetchable)
	}
	at := uint64(0)
	for _, g := range w.store.Gates() {
		at += g.Jobs
	}
	if at != gated {
		w.t.Errorf("%d jobs wait at gates, of %d", at, gated)
	}
	w.check()
}

// The jobs at a gate are the same after a restart, and the jobs behind them go first.
func TestParkedJobsKeepNobody(t *testing.T) {
	t.Parallel()
	w := parked(t, 3)
	w.counts(3, 3, 0)
	w.restart()
	w.counts(3, 3, 0)
	w.apply(w.newJobs("q", 2))
	w.counts(5, 3, 2)
	if got := one[*op.FetchResult](w, w.fetch("q", 100)).Jobs; len(got) != 2 {
		t.Errorf("%d of 2 jobs behind the gate were fetched", len(got))
	}
	w.counts(3, 3, 0)
}

// A full queue drops ready jobs and no jobs at a gate, although those count.
func TestParkedJobsAreNotDropped(t *testing.T) {
	t.Parallel()
	w := parked(t, 3)
	most, drop := uint64(4), job.Overflow_OVERFLOW_DROP_OLDEST
	w.apply(&op.SetQueue{Queue: "q", MaxLength: &most, Overflow: &drop})
	first := w.newJobs("q", 1)
	w.apply(first)
	w.apply(w.newJobs("q", 1)) // in the place of the first
	w.counts(4, 3, 1)
	if j, err := w.store.Job(job.ID(first.Meta.Ids[0])); err != nil || j.State != job.Dead {
		t.Errorf("the ready job is %v, %v", j, err)
	}
	if err, refused := w.apply(w.newJobs("q", 2))[0].(error); !refused || api.CodeOf(err) != api.QueueFull {
		t.Errorf("two jobs in the place of one: %v", err)
	}
	w.counts(4, 3, 1)
}

// Clearing a queue removes the jobs at gates too.
func TestParkedJobsAreCleared(t *testing.T) {
	t.Parallel()
	w := parked(t, 3)
	w.apply(&op.ClearQueue{Queue: "q"})
	o := &op.SweepQueue{Queue: "q", Below: queueRecord(w, "q").ClearBelow}
	ids := [][]byte{}
	snapshot := w.store.Snapshot()
	at, err := snapshot.AtGate(job.Gate_GATE_PROVIDER, "p", 10)
	snapshot.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range at {
		ids = append(ids, id[:])
	}
	o.JobIds = ids
	w.apply(o)
	w.counts(0, 0, 0)
	w.checkReplica()
}

// The jobs before a job are counted up to a bound, in its queue and at its gate.
func TestCountingWhoIsBefore(t *testing.T) {
	t.Parallel()
	w := parked(t, 5)
	w.apply(w.newJobs("q", 5))
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	ready, atGate := 0, 0
	for j, err := range snapshot.Jobs() {
		if err != nil {
			t.Fatal(err)
		}
		if j.State != job.Pending {
			continue
		}
		count, before := snapshot.BeforeReady, &ready
		if op.AtGate(j) {
			count, before = snapshot.BeforeAtGate, &atGate
		}
		for _, most := range []int{3, 100} {
			if n, err := count(j, most); err != nil || n != min(*before, most) {
				t.Errorf("%d of at most %d are before it, want %d (%v)", n, most, min(*before, most), err)
			}
		}
		*before++
	}
	if ready != 5 || atGate != 5 {
		t.Errorf("%d jobs are ready and %d at the gate", ready, atGate)
	}
}

// Awaited looks up a bounded number of a job's dependencies, and says whether these are all.
func TestAwaitedIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	awaited := w.newJobs("q", 3)
	w.apply(awaited)
	waiter := w.newJobs("q", 1)
	for _, id := range awaited.Meta.Ids {
		waiter.Jobs[0].DependsOn = append(waiter.Jobs[0].DependsOn, &op.Dependency{JobId: id})
	}
	w.apply(waiter)
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	for most, want := range map[int]int{0: 0, 2: 2, 3: 3, 100: 3} {
		ids, whole, err := snapshot.Awaited(job.ID(waiter.Meta.Ids[0]), most)
		if err != nil || len(ids) != want || whole != (most >= 3) {
			t.Errorf("of %d waits, %d are its own, and all: %v (%v)", most, len(ids), whole, err)
		}
	}
}
