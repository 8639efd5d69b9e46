package view

import (
	"time"

	"github.com/corvo/corvo/dataplane/state"
)

// Lag returns how many events the file is behind the store and how old the file's
// answers are. Both are 0 if the file shows everything. The age never understates: it
// counts from the last moment of which the file shows everything, or from the first
// growth of the feed after a flush that reached the feed's end, whichever is later.
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

// Building says whether a new file is being built, beside an old one or because the
// view has none that it can answer from.
func (v *View) Building() bool { return v.building.Load() }

// reach notes that the file shows everything up to toNs on the store's clock, as of a
// look at the store at the process's clock. Both ages are of entries, so an entry clock
// that is ahead of or behind this machine's clock does not matter.
func (v *View) reach(looked int64, head *state.Head, toNs int64) {
	v.reached.Store(max(1, looked-max(0, head.GetClockNs()-toNs)))
}

// caughtUp notes that the file shows everything the store had at a moment of the
// process's clock.
func (v *View) caughtUp(looked int64) {
	v.behindSince.Store(0)
	// A commit since then may have found behindSince set and left it alone.
	if seq, _ := v.Cursor(); v.store.Head().GetFeedNextSeq() > seq {
		v.behindSince.CompareAndSwap(0, looked)
	}
}

// measurePace takes over how many events a flush has shown in how long.
func (v *View) measurePace(events uint64, tookNs int64) {
	pace := uint64(float64(events) / max(time.Duration(tookNs), time.Microsecond).Seconds())
	if before := v.pace.Load(); before > 0 {
		pace = (3*before + pace) / 4 // flushes differ
	}
	v.pace.Store(max(1, pace))
}

// The bounds of Behind.
const (
	leastRetry = time.Second
	mostRetry  = 30 * time.Second
)

// Behind says whether the view's answers are older than a limit, and how long the view
// needs at its pace until they are not, if nothing new comes.
func (v *View) Behind(limit time.Duration) (retry time.Duration, behind bool) {
	events, age := v.Lag()
	if age <= limit {
		return 0, false
	}
	pace := v.pace.Load()
	if pace == 0 || v.Building() { // a file that is being built shows nothing new
		return mostRetry, true
	}
	excess := float64(events) * float64(age-limit) / float64(age)
	seconds := min(excess/float64(pace), mostRetry.Seconds())
	return max(leastRetry, time.Duration(seconds*float64(time.Second))), true
}
