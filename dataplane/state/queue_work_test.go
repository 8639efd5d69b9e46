package state

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spend makes a queue use up its rate of one job a second, with another job waiting, and returns when the
// queue may hand out the next.
func spend(t testing.TB, s *Store) (freeNs int64) {
	t.Helper()
	update(t, s, func(tx *Tx) {
		q := tx.EnsureQueue("q")
		q.RateLimit, q.RateWindowMs = 1, 1000
		tx.PutQueue(q, EventType_EVENT_QUEUE_CHANGED)
		create(t, tx, 1, "q")
		create(t, tx, 2, "q")
	})
	update(t, s, func(tx *Tx) {
		tx.EnsureQueue("q").CountRate(tx.ClockNs())
		activate(t, tx, idOf(1), tx.ClockNs()+int64(time.Hour))
		freeNs = tx.Queue("q").Rate.FreeAt(1, 1000, tx.ClockNs())
	})
	return freeNs
}

// at commits an entry at a time of the clock.
func at(t testing.TB, s *Store, clockNs int64, change func(tx *Tx)) {
	t.Helper()
	tx := s.Begin(position(s.Head().Index+1), header(clockNs))
	change(tx)
	must(t, tx.Commit())
}

// TestReplenishmentsFollowTheStore checks that the store knows when a rate limit frees a queue's jobs, as
// soon as the limit keeps them back, and after a restart and a restore.
func TestReplenishmentsFollowTheStore(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	heard := int64(0)
	s.SetHooks(Hooks{OnReplenish: func(dueNs int64) { heard = dueNs }})
	freeNs := spend(t, s)
	if heard != freeNs {
		t.Errorf("the hook heard %d, want %d", heard, freeNs)
	}
	same := func(s *Store) {
		t.Helper()
		if due, ok := s.NextReplenish(); !ok || due != freeNs {
			t.Errorf("the next is at %d, %v; want %d", due, ok, freeNs)
		}
		if s.Fetchable("q") != 0 || len(s.ReplenishDue(freeNs-1)) != 0 || !slices.Equal(s.ReplenishDue(freeNs), []string{"q"}) {
			t.Errorf("%d are fetchable; due before: %v, due: %v", s.Fetchable("q"), s.ReplenishDue(freeNs-1), s.ReplenishDue(freeNs))
		}
	}
	same(s)
	restored := openClosing(t)
	heard = 0
	restored.SetHooks(Hooks{OnReplenish: func(dueNs int64) { heard = dueNs }})
	must(t, restored.Restore(copyOf(t, s)))
	same(restored)
	if heard != freeNs {
		t.Errorf("after a restore the hook heard %d, want %d", heard, freeNs)
	}
	must(t, s.Close())
	s = open(t, fs)
	defer s.Close()
	same(s)
	check(t, s)
}

// The first entry that touches a queue after its rate allows jobs again wakes the queue's fetches.
func TestAnyEntryReplenishes(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	ready := ""
	s.SetHooks(Hooks{OnReady: func(queue string, n int) { ready += fmt.Sprint(queue, n) }})
	freeNs := spend(t, s)
	ready = ""
	at(t, s, freeNs-1, func(tx *Tx) { tx.PutQueue(tx.EnsureQueue("q")) })
	if ready != "" || s.Fetchable("q") != 0 {
		t.Errorf("too early the hook heard %q; %d fetchable", ready, s.Fetchable("q"))
	}
	at(t, s, freeNs, func(tx *Tx) { complete(t, tx, idOf(1)) })
	if _, kept := s.NextReplenish(); ready != "q1" || s.Fetchable("q") != 1 || kept {
		t.Errorf("the hook heard %q; %d fetchable, kept: %v", ready, s.Fetchable("q"), kept)
	}
}

// The store replenishes only queues that nothing but their rate limit keeps.
func TestWhatElseKeepsAQueueIsNotReplenished(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(tx *Tx, q *Queue){
		"pause":        func(_ *Tx, q *Queue) { q.Paused = true },
		"deletion":     func(_ *Tx, q *Queue) { q.Deleting = true },
		"concurrency":  func(_ *Tx, q *Queue) { q.MaxConcurrency = 1 },
		"a free limit": func(_ *Tx, q *Queue) { q.RateLimit = 0 },
		"no jobs":      func(tx *Tx, _ *Queue) { activate(t, tx, idOf(2), math.MaxInt64/2) },
	} {
		s := openClosing(t)
		spend(t, s)
		update(t, s, func(tx *Tx) {
			q := tx.EnsureQueue("q")
			change(tx, q)
			tx.PutQueue(q)
		})
		if due, ok := s.NextReplenish(); ok {
			t.Errorf("%s: replenished at %d", name, due)
		}
	}
}

func TestClearingsFollowTheStore(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) {
		create(t, tx, 1, "a")
		create(t, tx, 2, "b")
		create(t, tx, 3, "b")
		activate(t, tx, idOf(3), math.MaxInt64/2)
		tx.EnsureQueue("c")
		for name, change := range map[string]func(q *Queue){
			"a": func(q *Queue) { q.ClearBelow = 9 }, "b": func(q *Queue) { q.Deleting = true }, "c": func(q *Queue) { q.Deleting = true },
		} {
			change(tx.EnsureQueue(name))
		}
	})
	want := []Clearing{{Queue: "a", Below: 9, Rest: 1}, {Queue: "b", Deleting: true, Active: 1, Rest: 1}, {Queue: "c", Deleting: true}}
	if got := s.Clearings(); !slices.Equal(got, want) {
		t.Errorf("the store says %+v", got)
	}
	must(t, s.Close())
	s = open(t, fs)
	defer s.Close()
	if got := s.Clearings(); !slices.Equal(got, want) {
		t.Errorf("reopened it says %+v", got)
	}
	heard := 0
	s.SetHooks(Hooks{OnClearing: func() { heard++ }})
	endA, endC := s.Cleared("a"), s.Cleared("c")
	update(t, s, func(tx *Tx) { complete(t, tx, idOf(3)) })
	if heard != 1 {
		t.Errorf("a worker let go, and the hook heard it %d times", heard)
	}
	update(t, s, func(tx *Tx) {
		a := tx.EnsureQueue("a")
		a.ClearBelow = 0
		tx.PutQueue(a, EventType_EVENT_QUEUE_CLEARED)
		must(t, tx.DeleteQueue("c"))
	})
	<-endA
	<-endC
	<-s.Cleared("unknown")
	if got := s.Clearings(); len(got) != 1 || got[0] != (Clearing{Queue: "b", Deleting: true, Rest: 2}) {
		t.Errorf("the store says %+v", got)
	}
}
