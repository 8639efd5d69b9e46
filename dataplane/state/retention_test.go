package state

import (
	"fmt"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

// settleAt adds a job to the store that settled at a time.
func settleAt(t testing.TB, tx *Tx, n int, queue string, s job.State, settledNs int64) {
	t.Helper()
	j := newJob(n, queue)
	j.State, j.SettledNs = s, settledNs
	must(t, tx.CreateJob(j, enqueued))
}

// keep gives a queue a retention.
func keep(tx *Tx, queue string, r *job.Retention) {
	q := tx.EnsureQueue(queue)
	q.Retention = r
	tx.PutQueue(q, EventType_EVENT_QUEUE_CHANGED)
}

// wantOver checks the jobs that are due, in their order, and the time of the next.
func wantOver(t testing.TB, s *Store, nowNs int64, limit int, next int64, want ...int) {
	t.Helper()
	ids, nextNs, err := s.RetentionDue(nowNs, limit)
	must(t, err)
	got := []int{}
	for _, id := range ids {
		got = append(got, int(id[15]))
	}
	if fmt.Sprint(got) != fmt.Sprint(append([]int{}, want...)) || nextNs != next {
		t.Errorf("at %d jobs %v are due and the next at %d, want %v and %d", nowNs, got, nextNs, want, next)
	}
}

const ms = int64(1e6)

// A retention applies from the commit that changes it, also to jobs that settled before.
func TestRetentionBindsSettledJobs(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	heard := int64(0)
	s.SetHooks(Hooks{OnRetention: func(dueNs int64) { heard = dueNs }})
	week := int64(job.DefaultRetentionTime)
	update(t, s, func(tx *Tx) {
		settleAt(t, tx, 1, "q", job.Completed, 10*ms)
		settleAt(t, tx, 2, "q", job.Completed, 5*ms)
		settleAt(t, tx, 3, "q", job.Dead, 7*ms)
		settleAt(t, tx, 4, "r", job.Completed, 6*ms)
	})
	if heard != 5*ms+week {
		t.Errorf("the hook heard %d", heard)
	}
	wantOver(t, s, 5*ms+week-1, 10, 5*ms+week)
	wantOver(t, s, 6*ms+week, 10, 5*ms+week, 2, 4)
	wantOver(t, s, 10*ms+week, 10, 5*ms+week, 2, 1, 4, 3)
	wantOver(t, s, 10*ms+week, 3, 5*ms+week, 2, 1, 4)

	update(t, s, func(tx *Tx) { keep(tx, "q", &job.Retention{CompletedMs: 1}) })
	if heard != 6*ms {
		t.Errorf("after a shorter retention the hook heard %d", heard)
	}
	wantOver(t, s, 6*ms, 10, 6*ms, 2)
	update(t, s, func(tx *Tx) { tx.Head().Settings = &Settings{Retention: &job.Retention{CompletedMs: 100, DeadMs: 2}} })
	wantOver(t, s, 11*ms, 10, 6*ms, 2, 1, 3)
	update(t, s, func(tx *Tx) { keep(tx, "q", &job.Retention{CompletedMs: job.Forever}) })
	wantOver(t, s, 11*ms, 10, 9*ms, 3)
	update(t, s, func(tx *Tx) { tx.Head().Settings = nil })
	wantOver(t, s, 11*ms, 10, 6*ms+week)
	update(t, s, func(tx *Tx) { keep(tx, "q", nil) })
	wantOver(t, s, 11*ms, 10, 5*ms+week)
}

// Revived, moved and removed jobs are not due, nor is a job that keeps its unique key.
func TestRetentionFollowsJobs(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) {
		tx.Head().Settings = &Settings{Retention: &job.Retention{CompletedMs: 1}}
		keep(tx, "far", &job.Retention{CompletedMs: 9})
		for n := 1; n <= 4; n++ {
			settleAt(t, tx, n, "q", job.Completed, int64(n)*ms)
		}
	})
	wantOver(t, s, 100*ms, 10, 2*ms, 1, 2, 3, 4)
	update(t, s, func(tx *Tx) {
		edit(t, tx, idOf(1), func(j *job.Job) { j.State, j.SettledNs = job.Pending, 0 }, promoted)
		moved, err := tx.Job(idOf(2))
		must(t, err)
		must(t, tx.MoveJob(moved, "far"))
		edit(t, tx, idOf(3), func(j *job.Job) {
			j.Opt().UniqueKey, j.Opt().UniqueWholePeriod, j.Details().UniqueExpiresNs = "k", true, 50*ms
		}, enqueued)
		gone, err := tx.Job(idOf(4))
		must(t, err)
		must(t, tx.DeleteJob(gone, EventType_EVENT_PURGED))
	})
	wantOver(t, s, 100*ms, 10, 11*ms, 2)
	over := func(n int) (is bool) {
		update(t, s, func(tx *Tx) {
			tx.head.ClockNs = 100 * ms
			j, err := tx.Job(idOf(n))
			must(t, err)
			is, err = tx.RetentionOver(j)
			must(t, err)
		})
		return is
	}
	if over(1) || !over(2) || over(3) {
		t.Error("the retention of a pending job, or of one that keeps its key, is over, or that of a settled one is not")
	}
	// The key is free: the job takes its place among the settled ones, before those that RetentionDue has
	// read.
	update(t, s, func(tx *Tx) {
		edit(t, tx, idOf(3), func(j *job.Job) { j.Details().UniqueExpiresNs = 0 }, promoted)
	})
	wantOver(t, s, 100*ms, 10, 4*ms, 3, 2)
}

// After a restart and a restore the store finds the settled jobs again, and the lists that are empty.
func TestRetentionFollowsTheStore(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) {
		keep(tx, "q", &job.Retention{CompletedMs: 1})
		settleAt(t, tx, 1, "q", job.Completed, 3*ms)
		settleAt(t, tx, 2, "gone", job.Completed, 3*ms)
	})
	update(t, s, func(tx *Tx) {
		j, err := tx.Job(idOf(2))
		must(t, err)
		must(t, tx.DeleteJob(j, EventType_EVENT_PURGED))
		must(t, tx.DeleteQueue("gone"))
	})
	restored := openClosing(t)
	heard := int64(0)
	restored.SetHooks(Hooks{OnRetention: func(dueNs int64) { heard = dueNs }})
	must(t, restored.Restore(copyOf(t, s)))
	if heard > 4*ms || heard == 0 {
		t.Errorf("after a restore the hook heard %d", heard)
	}
	must(t, s.Close())
	s = open(t, fs)
	defer s.Close()
	for _, s := range []*Store{s, restored} {
		wantOver(t, s, math.MinInt64+10*ms, 10, 4*ms)
		wantOver(t, s, 4*ms-1, 10, 4*ms)
		wantOver(t, s, 4*ms, 10, 4*ms, 1)
		update(t, s, func(tx *Tx) {
			j, err := tx.Job(idOf(1))
			must(t, err)
			must(t, tx.DeleteJob(j, EventType_EVENT_PURGED))
		})
		wantOver(t, s, 4*ms, 10, latest)
		check(t, s)
	}
}

// One call reads at most as many lists as it may return jobs, so that a start with many queues does not delay
// the other duties.
func TestRetentionLooksAtAFewLists(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) {
		for n := 1; n <= 5; n++ {
			settleAt(t, tx, n, fmt.Sprint("q", n), job.Completed, int64(n))
		}
	})
	must(t, s.Close())
	s = open(t, fs)
	defer s.Close()
	for range 2 {
		if _, next, err := s.RetentionDue(0, 2); err != nil || next > 0 {
			t.Fatalf("lists are left, and the next look is to be at %d: %v", next, err)
		}
	}
	wantOver(t, s, 0, 2, 1+int64(job.DefaultRetentionTime))
}
