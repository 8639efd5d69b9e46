package billing

import (
	"time"

	"github.com/corvo/corvo/billing/money"
)

// A rolling window is the last LengthMs milliseconds before a moment. The amounts are kept in RollingSlices
// slices of equal length, so that the window takes the same memory however many amounts it holds. A slice
// that lies only partly in the window counts whole. So the budget counts an amount for up to one slice too
// long, but never too short.

// RollingSlices is the number of slices in a rolling window. Rolling keeps one more, because a window
// that begins within a slice also ends within one.
const RollingSlices = 64

const keptSlices = RollingSlices + 1

// Rolling holds the amounts spent in a rolling window. A Rolling with only LengthMs set is an empty
// window.
type Rolling struct {
	LengthMs int64
	Newest   uint64  // number of the newest slice: its start divided by its length
	Settled  []int64 // nano-USD, indexed by slice number modulo keptSlices
	Overrun  []int64
}

// Sums returns the amounts spent in the window that ends at nowNs.
func (r *Rolling) Sums(nowNs int64) (s Sums) {
	if len(r.Settled) == 0 {
		return s
	}
	for n := oldest(r.slice(nowNs)); n <= r.Newest; n++ {
		s = s.Add(r.at(n))
	}
	return s
}

// Add adds amounts that were spent at nowNs.
func (r *Rolling) Add(s Sums, nowNs int64) {
	now := r.slice(nowNs)
	if len(r.Settled) == 0 {
		r.Settled, r.Overrun = make([]int64, keptSlices), make([]int64, keptSlices)
		r.Newest = now
	}
	for n := max(r.Newest+1, oldest(now)); n <= now; n++ {
		r.Settled[n%keptSlices], r.Overrun[n%keptSlices] = 0, 0
	}
	r.Newest = now
	r.put(now, s)
}

// FallsTo returns the first time, at nowNs or later, at which the window holds at most `most`, if nothing
// more is spent after nowNs.
func (r *Rolling) FallsTo(most money.Nano, nowNs int64) int64 {
	if len(r.Settled) == 0 {
		return nowNs
	}
	first := oldest(r.slice(nowNs))
	var left Sums
	at := nowNs
	// The loop adds the slices up from the newest, instead of subtracting the oldest from their sum, because
	// that sum may be capped.
	for n := r.Newest; n >= first; n-- {
		if left = left.Add(r.at(n)); left.Spent() > most {
			at = int64(n+keptSlices) * sliceNs(r.LengthMs)
			break
		}
		if n == 0 {
			break
		}
	}
	return max(at, nowNs)
}

// Over returns r with another window length. Each amount moves to the last moment at which it can have been
// spent, at most nowNs, so that no amount leaves the new window too early. If r has that length already, the
// result shares r's amounts.
func (r Rolling) Over(lengthMs, nowNs int64) Rolling {
	if r.LengthMs == lengthMs {
		return r
	}
	out := Rolling{LengthMs: lengthMs}
	if len(r.Settled) == 0 {
		return out
	}
	for n := oldest(r.Newest); n <= r.Newest; n++ {
		if s := r.at(n); s != (Sums{}) {
			out.Add(s, max(0, min(int64(n+1)*sliceNs(r.LengthMs)-1, nowNs)))
		}
	}
	return out
}

func (r *Rolling) at(n uint64) Sums {
	i := n % keptSlices
	return Sums{money.Nano(r.Settled[i]), money.Nano(r.Overrun[i])}
}

func (r *Rolling) put(n uint64, more Sums) {
	i, s := n%keptSlices, r.at(n).Add(more)
	r.Settled[i], r.Overrun[i] = int64(s.Settled), int64(s.Overrun)
}

// slice returns the number of the slice at nowNs, or Newest if that is later because the clock went back.
func (r *Rolling) slice(nowNs int64) uint64 {
	return max(uint64(max(nowNs, 0)/sliceNs(r.LengthMs)), r.Newest)
}

// sliceNs returns the length of a slice, rounded up so that the slices together are never shorter than
// the window.
func sliceNs(lengthMs int64) int64 {
	return (max(lengthMs, 1)*int64(time.Millisecond) + RollingSlices - 1) / RollingSlices
}

// oldest returns the number of the first slice that a window ending in slice now may touch.
func oldest(now uint64) uint64 { return now + 1 - min(now+1, keptSlices) }
