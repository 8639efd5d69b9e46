package state

import (
	"math"
	"sync"
)

// TimerClass is a kind of due work. The values are part of keys, so they are permanent.
type TimerClass uint8

// The timer classes.
const (
	TimerScheduled   TimerClass = 1  // a scheduled job becomes pending
	TimerRetry       TimerClass = 2  // a retrying job becomes pending
	TimerLease       TimerClass = 3  // an active job's lease ends
	TimerIdempotency TimerClass = 4  // an idempotency record expires
	TimerExpiry      TimerClass = 5  // a job expires
	TimerUnique      TimerClass = 6  // a job's unique key is released
	_                TimerClass = 7  // the removal of a settled job, which is no timer any more (retention.go)
	TimerBatch       TimerClass = 8  // a completed batch is removed
	TimerSchedule    TimerClass = 9  // a schedule runs
	TimerDependents  TimerClass = 10 // the jobs that wait for a settled job are notified
	TimerBudget      TimerClass = 11 // a budget's window ends, or money of a slice is reported or granted
	TimerDelivery    TimerClass = 12 // an event is sent to a webhook
	TimerDelivered   TimerClass = 13 // a delivery record is removed
	TimerBulk        TimerClass = 14 // a bulk operation's record is removed

	timerClasses = 15 // length of arrays by class
)

// timerFloor is a lower bound of the due times of a class. Reads start there, because most timers are removed
// long before they are due, and a read from the class's first key would walk over the tombstones of all of
// them.
//
// A reader raises the floor to the earliest timer that it finds or, if it finds none, past the end of the
// range that it read. If a commit has set timers of the class since the reader began, the reader leaves the
// floor, because those timers may be earlier. A commit lowers the floor after readers can see its timers and
// before it calls the hooks.
type timerFloor struct {
	mu      sync.Mutex
	ns      int64
	commits uint64
}

func (f *timerFloor) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ns = math.MinInt64
	f.commits++
}

func (f *timerFloor) lower(ns int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ns = min(f.ns, ns)
	f.commits++
}

func (f *timerFloor) get() (ns int64, commits uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ns, f.commits
}

func (f *timerFloor) raise(ns int64, commits uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.commits == commits {
		f.ns = max(f.ns, ns)
	}
}

// NextDue returns the due time of the earliest timer of a class; ok is false if there is none.
func (s *Store) NextDue(class TimerClass) (dueNs int64, ok bool, err error) {
	err = s.timers(class, math.MinInt64, latest, func(t timer, _ [16]byte) bool {
		dueNs, ok = t.dueNs, true
		return false
	})
	return dueNs, ok, err
}

// Due returns up to limit ids of records whose timer of the class is due at or before nowNs, the earliest
// first.
func (s *Store) Due(class TimerClass, nowNs int64, limit int) ([][16]byte, error) {
	return s.DueSince(class, math.MinInt64, nowNs, limit)
}

// DueSince is Due without the timers due before sinceNs. It does not read those, so a caller that has seen
// them does not pay for them again.
func (s *Store) DueSince(class TimerClass, sinceNs, nowNs int64, limit int) (ids [][16]byte, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = s.timers(class, sinceNs, nowNs, func(_ timer, id [16]byte) bool {
		ids = append(ids, id)
		return len(ids) < limit
	})
	return ids, err
}

// timers yields the timers of a class due from sinceNs to untilNs, both included, in order.
func (s *Store) timers(class TimerClass, sinceNs, untilNs int64, yield func(timer, [16]byte) bool) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed
	}
	floor := &s.floors[class]
	from, commits := floor.get()
	lowest := sinceNs <= from // else the first timer found says nothing about earlier ones
	if from = max(from, sinceNs); from > untilNs {
		return nil
	}
	upper := timerEnd(class)
	if untilNs < latest {
		upper = timerBound(class, untilNs+1)
	}
	first := true
	for key, err := range scanKeys(s.gen.db, timerBound(class, from), upper) {
		if err != nil {
			return err
		}
		t, id, err := decodeTimerKey(key)
		if err != nil {
			return err
		}
		if first && lowest {
			floor.raise(t.dueNs, commits)
		}
		first = false
		if !yield(t, id) {
			return nil
		}
	}
	if first && lowest && untilNs < latest {
		floor.raise(untilNs+1, commits)
	}
	return nil
}
