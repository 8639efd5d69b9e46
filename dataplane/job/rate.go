package job

import (
	"iter"
	"math"
	"time"
)

// A queue's rate limit says how many of its jobs may be let go in any window of a
// given length, wherever that window lies. What was let go is counted in slices of
// 1/RateSlices of the window, so that it takes the same room whatever the rate is.
// A slice that the window covers in part counts whole: so a take is held against
// the queue for up to one slice longer than it must be, which costs at most 1.6 %
// of the limit, and never shorter.
//
// A token bucket (GCRA) needs two numbers only, but lets a burst of the whole limit
// go at the end of an idle window and as much again while it refills: twice the
// limit in one window. A log of takes is exact to the nanosecond and grows with the
// rate, to millions of times in every record of the queue.
//
// The window is remembered for the length it was counted with. Where the length
// changes, what is remembered is counted at the latest moment it can have been
// taken at, so nothing that is remembered is forgotten before the new window has
// passed it. A longer window begins with what the shorter one knew: takes that had
// left that one are not held against it.

// RateSlices is how many slices a rate's window has. One more is kept: a window
// that begins within a slice ends within another.
const RateSlices = 64

// keptSlices are the slices that a window may touch.
const keptSlices = RateSlices + 1

// sliceNs is the length of a slice: rounded up, so that the slices are never
// shorter than the window.
func sliceNs(windowMs int64) int64 {
	return (max(windowMs, 1)*int64(time.Millisecond) + RateSlices - 1) / RateSlices
}

// Free is how many may be taken at nowNs. The zero RateWindow, and nil, has had
// nothing taken.
func (r *RateWindow) Free(limit uint32, windowMs, nowNs int64) uint32 {
	r = r.Over(windowMs, nowNs)
	taken := r.taken(r.slice(nowNs))
	if taken >= uint64(limit) {
		return 0
	}
	return limit - uint32(taken)
}

// FreeAt is when Free becomes more than 0: nowNs where it is, and never for a limit
// of 0.
func (r *RateWindow) FreeAt(limit uint32, windowMs, nowNs int64) int64 {
	if limit == 0 {
		return neverNs
	}
	return r.FallsTo(uint64(limit)-1, windowMs, nowNs)
}

// Taken is how many were taken in the window that ends at nowNs.
func (r *RateWindow) Taken(windowMs, nowNs int64) uint64 {
	r = r.Over(windowMs, nowNs)
	return r.taken(r.slice(nowNs))
}

// FallsTo is when Taken becomes most or less, if nothing more is taken: nowNs where it
// is.
func (r *RateWindow) FallsTo(most uint64, windowMs, nowNs int64) int64 {
	r = r.Over(windowMs, nowNs)
	now := r.slice(nowNs)
	left := r.taken(now)
	if left <= most {
		return nowNs
	}
	for n := oldest(now); n <= r.Newest; n++ {
		left -= uint64(r.Counts[n%keptSlices])
		if left <= most {
			return int64(n+keptSlices) * sliceNs(windowMs)
		}
	}
	return neverNs
}

// ForgottenAt is when what was taken is of no window any more.
func (r *RateWindow) ForgottenAt() int64 {
	return int64(r.GetNewest()+keptSlices) * sliceNs(r.GetWindowMs())
}

// neverNs is a time that does not come.
const neverNs = 1<<63 - 1

// Take counts one take at nowNs, in a window of that length. Whether there is room
// for it says Free.
func (r *RateWindow) Take(windowMs, nowNs int64) { r.TakeN(1, windowMs, nowNs) }

// TakeN counts n takes at nowNs. A slice counts up to what it can hold and no
// further: that is more than any limit.
func (r *RateWindow) TakeN(count uint64, windowMs, nowNs int64) {
	if over := r.Over(windowMs, nowNs); over != r {
		r.WindowMs, r.Newest, r.Counts = over.WindowMs, over.Newest, over.Counts
	}
	now := r.slice(nowNs)
	for n := max(r.Newest+1, oldest(now)); n <= now; n++ {
		r.Counts[n%keptSlices] = 0
	}
	r.Newest = now
	r.Counts[now%keptSlices] = sum32(r.Counts[now%keptSlices], count)
}

// Over is r counted in slices of another window at nowNs; r itself where it is
// counted in those already.
func (r *RateWindow) Over(windowMs, nowNs int64) *RateWindow {
	if r != nil && r.WindowMs == windowMs && len(r.Counts) == keptSlices {
		return r
	}
	out := &RateWindow{WindowMs: windowMs, Counts: make([]uint32, keptSlices)}
	out.Newest = out.slice(nowNs)
	if r == nil || len(r.Counts) != keptSlices {
		return out
	}
	for n := oldest(r.Newest); n <= r.Newest; n++ {
		latest := min(int64(n+1)*sliceNs(r.WindowMs)-1, nowNs)
		to := uint64(max(latest, 0) / sliceNs(windowMs))
		if to >= oldest(out.Newest) {
			out.Counts[to%keptSlices] = sum32(out.Counts[to%keptSlices], uint64(r.Counts[n%keptSlices]))
		}
	}
	return out
}

// sum32 is the sum of two counts, or the most there can be.
func sum32(a uint32, b uint64) uint32 {
	return uint32(min(uint64(a)+min(b, math.MaxUint32), math.MaxUint32))
}

// slice is the number of the slice that nowNs lies in; the newest one's where the
// clock was further already.
func (r *RateWindow) slice(nowNs int64) uint64 {
	return max(uint64(max(nowNs, 0)/sliceNs(r.WindowMs)), r.Newest)
}

// oldest is the first slice that a window ending in slice now may touch.
func oldest(now uint64) uint64 {
	return now + 1 - min(now+1, keptSlices)
}

// Slices yields the start and the count of each slice that has takes, oldest first: those
// of the last window in which something was taken.
func (r *RateWindow) Slices() iter.Seq2[int64, uint32] {
	return func(yield func(startNs int64, count uint32) bool) {
		if r == nil || len(r.Counts) != keptSlices {
			return
		}
		for n := oldest(r.Newest); n <= r.Newest; n++ {
			if count := r.Counts[n%keptSlices]; count > 0 && !yield(int64(n)*sliceNs(r.WindowMs), count) {
				return
			}
		}
	}
}

// taken is what was taken in the slices that a window ending in slice now touches.
func (r *RateWindow) taken(now uint64) uint64 {
	var n uint64
	for slice := oldest(now); slice <= r.Newest; slice++ {
		n += uint64(r.Counts[slice%keptSlices])
	}
	return n
}
