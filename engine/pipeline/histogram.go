package pipeline

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is how many buckets a Histogram has. Bucket i counts durations of up
// to 2^i microseconds, the last one all that are longer, which is beyond any
// time a request waits.
const Buckets = 26

// BucketBound is the longest duration of bucket i; the last bucket has none.
func BucketBound(i int) time.Duration { return time.Microsecond << i }

// Stats is what pipelines count. Those of a group's successive terms share one,
// so that what it shows begins with the process and not with the leadership.
type Stats struct {
	QueueTime Histogram     // of each op: from its proposal until its entry is appended
	ApplyTime Histogram     // of each entry that was applied: from its append until then
	Refused   atomic.Uint64 // ops refused because the backlog was full
}

// Histogram counts durations. Buckets are fixed and double from one to the next:
// counting one costs two atomic additions and no memory.
type Histogram struct {
	counts [Buckets]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

func (h *Histogram) observe(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)].Add(1)
	h.sum.Add(int64(d))
}

func bucketOf(d time.Duration) int {
	if d <= time.Microsecond {
		return 0
	}
	return min(bits.Len64(uint64(d-1)/uint64(time.Microsecond)), Buckets-1)
}

// Read is what has been counted so far. Counts beside it may be in some of its
// figures and not yet in others.
func (h *Histogram) Read() Distribution {
	d := Distribution{Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		d.Counts[i] = h.counts[i].Load()
	}
	return d
}

// Distribution is what a Histogram had counted at some moment.
type Distribution struct {
	Counts [Buckets]uint64 // by bucket
	Sum    time.Duration
}

// Count is how many durations there are.
func (d *Distribution) Count() (n uint64) {
	for _, count := range d.Counts {
		n += count
	}
	return n
}

// Mean is their average, 0 of none.
func (d *Distribution) Mean() time.Duration {
	n := d.Count()
	if n == 0 {
		return 0
	}
	return d.Sum / time.Duration(n)
}

// Quantile is the duration that the part q of all, from 0 to 1, does not exceed;
// 0 of none. It is exact as to the bucket and takes durations for evenly spread
// within one, so it is at most twice what it should be, or half. Of the last
// bucket only the lower bound is known, and answered.
func (d *Distribution) Quantile(q float64) time.Duration {
	rank, below := q*float64(d.Count()), 0.0
	for i, count := range d.Counts {
		n := float64(count)
		if n == 0 || below+n < rank {
			below += n
			continue
		}
		var from time.Duration
		if i > 0 {
			from = BucketBound(i - 1)
		}
		if i == Buckets-1 {
			return from
		}
		return from + time.Duration((rank-below)/n*float64(BucketBound(i)-from))
	}
	return 0
}
