package job

import (
	"iter"
	"math"
	"time"
)

// A queue's rate limit bounds the jobs that start in every window of a given length, wherever the window
// lies. Starts are counted in slices of 1/RateSlices of the window, so that a record has the same size at
// every rate. A slice that the window covers in part counts fully. So a start counts for up to one slice too
// long, which costs at most 1.6 % of the limit, and never too short.
//
// A token bucket (GCRA) needs only two numbers, but it allows a burst of the whole limit at the end of an
// idle window and as much again while it refills: twice the limit in one window. A log of starts is exact to
// the nanosecond, but it grows with the rate, to millions of timestamps in every record of the queue.
//
// A RateWindow keeps the window length it was counted with. When the length changes, its counts move to the
// latest moment they can belong to, so nothing is forgotten before the new window has passed it. A longer
// window begins with the counts of the shorter one: starts that had left that window do not count again.

// RateSlices is the number of slices in a rate's window. One more is kept, because a window that begins
// within a slice ends within another.
const RateSlices = 64

// keptSlices is the number of slices that a window may touch.
const keptSlices = RateSlices + 1

// sliceNs returns the length of a slice in nanoseconds, rounded up, so that RateSlices slices are never
// shorter than the window.
func sliceNs(windowMs int64) int64 {
	return (max(windowMs, 1)*int64(time.Millisecond) + RateSlices - 1) / RateSlices
}

// Free returns the number of jobs that may start at nowNs. Nothing has started in a zero or nil RateWindow.
func (r *RateWindow) Free(limit uint32, windowMs, nowNs int64) uint32 {
	r = r.Over(windowMs, nowNs)
	taken := r.taken(r.slice(nowNs))
	if taken >= uint64(limit) {
		return 0
	}
	return limit - uint32(taken)
}

// FreeAt returns the time at which Free becomes more than 0: nowNs if it already is, and neverNs for a limit
// of 0.
func (r *RateWindow) FreeAt(limit uint32, windowMs, nowNs int64) int64 {
	if limit == 0 {
		return neverNs
	}
	return r.FallsTo(uint64(limit)-1, windowMs, nowNs)
}

// Taken returns the number of starts in the window that ends at nowNs.
func (r *RateWindow) Taken(windowMs, nowNs int64) uint64 {
	r = r.Over(windowMs, nowNs)
	return r.taken(r.slice(nowNs))
}

// FallsTo returns the time at which Taken is at most `most`, if nothing more starts: nowNs if it already is.
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

// ForgottenAt returns the time from which no window contains the counted starts.
func (r *RateWindow) ForgottenAt() int64 {
	return int64(r.GetNewest()+keptSlices) * sliceNs(r.GetWindowMs())
}

// neverNs is a time that does not come.
const neverNs = 1<<63 - 1

// Take counts one start at nowNs, in a window of windowMs. Free says whether there is room for it.
func (r *RateWindow) Take(windowMs, nowNs int64) { r.TakeN(1, windowMs, nowNs) }

// TakeN counts several starts at nowNs. A slice's count stops at its largest number, which is more than any
// limit.
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

// Over returns r counted in slices of another window at nowNs, or r itself if it has that window already.
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

// sum32 returns the sum of two counts, or the largest possible count.
func sum32(a uint32, b uint64) uint32 {
	return uint32(min(uint64(a)+min(b, math.MaxUint32), math.MaxUint32))
}

// slice returns the number of the slice of nowNs, or of the newest slice if the clock was ahead already.
func (r *RateWindow) slice(nowNs int64) uint64 {
	return max(uint64(max(nowNs, 0)/sliceNs(r.WindowMs)), r.Newest)
}

// oldest returns the first slice that a window ending in slice now may touch.
func oldest(now uint64) uint64 {
	return now + 1 - min(now+1, keptSlices)
}

// Slices yields the start and the count of each slice with starts, the oldest first, within the window that
// ends with the newest start.
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

// taken returns the number of starts in the slices that a window ending in slice now touches.
func (r *RateWindow) taken(now uint64) uint64 {
	var n uint64
	for slice := oldest(now); slice <= r.Newest; slice++ {
		n += uint64(r.Counts[slice%keptSlices])
	}
	return n
}
