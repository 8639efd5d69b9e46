package view

import (
	"time"

	"github.com/corvo/corvo/dataplane/state"
)

// Lag returns how many events the file is behind the store and how old the file's answers are. Both are 0 if
// the file shows everything. The age never understates: it counts from the last moment of which the file shows
// everything, or from the first growth of the feed after a flush that reached the feed's end, whichever is
// later. If a file that showed everything is withdrawn, the age counts from then on. While there was no file at
// all since the start, only that growth counts, and the age is 0 until the feed grows.
func (v *View) Lag() (events uint64, age time.Duration) {
	seq, _ := v.Cursor()
	next := v.store.Head().GetFeedNextSeq()
	if next <= seq {
		return 0, 0
	}
	if since := max(v.behindSince.Load(), v.reached.Load()); since != 0 {
		age = time.Duration(max(0, clock()-since))
	}
	return next - seq, age
}

// Building reports whether the view is building a new file, either beside an old one or because it has no
// file that can answer.
func (v *View) Building() bool { return v.building.Load() }

// reach records that the file shows everything up to toNs on the store's clock, for a look at the store at
// the time looked on the process's clock. toNs and the head's clock both come from entries, so a leader's
// clock that runs ahead of or behind this machine's does not falsify the age.
func (v *View) reach(looked int64, head *state.Head, toNs int64) {
	v.reached.Store(max(1, looked-max(0, head.GetClockNs()-toNs)))
}

// caughtUp records that the file shows everything that the store had at the time looked on the process's
// clock.
func (v *View) caughtUp(looked int64) {
	v.behindSince.Store(0)
	// A commit since then may have found behindSince set and left it alone.
	if seq, _ := v.Cursor(); v.store.Head().GetFeedNextSeq() > seq {
		v.behindSince.CompareAndSwap(0, looked)
	}
}

// measurePace adds the number of events and the duration of one flush to the view's average pace.
func (v *View) measurePace(events uint64, tookNs int64) {
	pace := uint64(float64(events) / max(time.Duration(tookNs), time.Microsecond).Seconds())
	if before := v.pace.Load(); before > 0 {
		pace = (3*before + pace) / 4 // smoothed, because flushes differ
	}
	v.pace.Store(max(1, pace))
}

// leastRetry and mostRetry bound the retry time that Behind returns.
const (
	leastRetry = time.Second
	mostRetry  = 30 * time.Second
)

// Behind reports whether the view's answers are older than a limit, and estimates from the view's pace how
// long it needs to come within the limit if no events are added.
func (v *View) Behind(limit time.Duration) (retry time.Duration, behind bool) {
	events, age := v.Lag()
	if age <= limit {
		return 0, false
	}
	pace := v.pace.Load()
	if pace == 0 || v.Building() { // a rebuild shows nothing new until it ends
		return mostRetry, true
	}
	excess := float64(events) * float64(age-limit) / float64(age)
	seconds := min(excess/float64(pace), mostRetry.Seconds())
	return max(leastRetry, time.Duration(seconds*float64(time.Second))), true
}
