package billing

import (
	"time"

	"github.com/corvo/corvo/billing/money"
)

// A rolling window is the last so many milliseconds, whenever one looks. What was
// spent is kept in slices of 1/RollingSlices of it, so that it takes the same room
// however much there is of it. A slice that the window covers in part counts whole: so
// money is held against the budget for up to one slice longer than it must be, and
// never shorter.

// RollingSlices is how many slices a rolling window has. One more is kept: a window
// that begins within a slice ends within another.
const RollingSlices = 64

const keptSlices = RollingSlices + 1

// Rolling is what was spent in a rolling window. The zero Rolling of a length has had
// nothing spent.
type Rolling struct {
	LengthMs int64
	Newest   uint64  // number of the newest slice: its start divided by its length
	Settled  []int64 // nano-USD by slice number modulo their count
	Overrun  []int64
}

// Sums is what was spent in the window that ends at nowNs.
func (r *Rolling) Sums(nowNs int64) (s Sums) {
	if len(r.Settled) == 0 {
		return s
	}
	for n := oldest(r.slice(nowNs)); n <= r.Newest; n++ {
		s = s.Add(r.at(n))
	}
	return s
}

// Book counts what was spent at nowNs.
func (r *Rolling) Book(s Sums, nowNs int64) {
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

// FallsTo is when no more than an amount is spent in the window, if nothing is spent
// from now on.
func (r *Rolling) FallsTo(most money.Nano, nowNs int64) int64 {
	if len(r.Settled) == 0 {
		return nowNs
	}
	first := oldest(r.slice(nowNs))
	var left Sums
	at := nowNs
	// From the newest on, so that the sum of what is left cannot have been cut short.
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

// Over is r counted in slices of another length at nowNs. What is remembered is
// counted at the latest moment it can have been spent at, so nothing is forgotten
// before the new window has passed it.
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
			out.Book(s, max(0, min(int64(n+1)*sliceNs(r.LengthMs)-1, nowNs)))
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

// slice is the number of the slice that nowNs lies in; the newest one's where the
// clock was further already.
func (r *Rolling) slice(nowNs int64) uint64 {
	return max(uint64(max(nowNs, 0)/sliceNs(r.LengthMs)), r.Newest)
}

// sliceNs is the length of a slice: rounded up, so that the slices together are never
// shorter than the window.
func sliceNs(lengthMs int64) int64 {
	return (max(lengthMs, 1)*int64(time.Millisecond) + RollingSlices - 1) / RollingSlices
}

// oldest is the first slice that a window ending in slice now may touch.
func oldest(now uint64) uint64 { return now + 1 - min(now+1, keptSlices) }
