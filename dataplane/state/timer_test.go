package state

import (
	"fmt"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

func TestTimers(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	first := func(class TimerClass, want string) {
		t.Helper()
		due, ok, err := s.NextDue(class)
		must(t, err)
		got := "none"
		if ok {
			got = fmt.Sprint(due)
		}
		if got != want {
			t.Errorf("class %d: the next is due at %s, want %s", class, got, want)
		}
	}
	due := func(class TimerClass, nowNs int64, limit int, want ...int) {
		t.Helper()
		ids, err := s.Due(class, nowNs, limit)
		must(t, err)
		got := []int{}
		for _, id := range ids {
			got = append(got, int(id[15]))
		}
		if fmt.Sprint(got) != fmt.Sprint(append([]int{}, want...)) {
			t.Errorf("class %d at %d: due are %v, want %v", class, nowNs, got, want)
		}
	}
	for class := TimerScheduled; class < timerClasses; class++ {
		first(class, "none")
	}
	update(t, s, func(tx *Tx) {
		for n, at := range []int64{50, 30, 40} {
			j := newJob(n+1, "q")
			j.State, j.ScheduledNs = job.Scheduled, at
			must(t, tx.CreateJob(j, scheduled))
		}
		create(t, tx, 4, "q")
		activate(t, tx, idOf(4), 60)
	})
	first(TimerScheduled, "30")
	first(TimerRetry, "none")
	first(TimerLease, "60")
	due(TimerScheduled, 29, 10)
	due(TimerScheduled, 30, 10, 2)
	due(TimerScheduled, 1000, 10, 2, 3, 1)
	due(TimerScheduled, 1000, 2, 2, 3)
	due(TimerScheduled, 1000, 0)
	since, err := s.DueSince(TimerScheduled, 40, 1000, 10)
	if must(t, err); len(since) != 2 || since[0][15] != 3 || since[1][15] != 1 {
		t.Errorf("due since 40 are %v", since)
	}
	due(TimerScheduled, 1000, 10, 2, 3, 1) // DueSince hides none of the timers before its start
	update(t, s, func(tx *Tx) {
		edit(t, tx, idOf(2), func(j *job.Job) { j.State = job.Pending }, promoted)
		edit(t, tx, idOf(4), func(j *job.Job) { j.State, j.ScheduledNs = job.Retrying, 70 }, failed, retrying)
	})
	first(TimerScheduled, "40")
	first(TimerRetry, "70")
	first(TimerLease, "none")
	// The next timers are earlier than any that the store has had, and than the end of a read that found
	// none.
	due(TimerRetry, 65, 10)
	update(t, s, func(tx *Tx) {
		j := newJob(5, "q")
		j.State, j.ScheduledNs = job.Scheduled, -5
		must(t, tx.CreateJob(j, scheduled))
		create(t, tx, 6, "q")
		activate(t, tx, idOf(6), 10)
		edit(t, tx, idOf(4), func(j *job.Job) { j.ScheduledNs = 20 }, retrying)
	})
	first(TimerScheduled, "-5")
	first(TimerRetry, "20")
	first(TimerLease, "10")
	due(TimerScheduled, 45, 10, 5, 3)
}

// TestTimerFloor commits a timer between a read and the raise of the floor by that read.
func TestTimerFloor(t *testing.T) {
	t.Parallel()
	f := &timerFloor{}
	f.reset()
	_, commits := f.get()
	f.raise(100, commits)
	if ns, _ := f.get(); ns != 100 {
		t.Errorf("the floor is %d, want 100", ns)
	}
	_, commits = f.get()
	f.lower(200) // a commit above the floor: the reader may not have seen it
	f.raise(300, commits)
	if ns, _ := f.get(); ns != 100 {
		t.Errorf("the floor is %d, want 100", ns)
	}
	f.lower(50)
	if ns, _ := f.get(); ns != 50 {
		t.Errorf("the floor is %d, want 50", ns)
	}
}
