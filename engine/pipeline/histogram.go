package pipeline

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is the number of buckets of a Histogram. Bucket i counts durations of more than 2^(i-1) and at most
// 2^i microseconds, bucket 0 all up to one microsecond, and the last bucket all above 16.8 seconds.
const Buckets = 26

// BucketBound returns the longest duration that bucket i counts; the last bucket has no such bound.
func BucketBound(i int) time.Duration { return time.Microsecond << i }

// Stats holds the counters of pipelines. The pipelines of a group's successive terms share one Stats, so that
// the counters start with the process and not with each leadership.
type Stats struct {
	QueueTime Histogram     // of each op: from its proposal until its entry is appended
	ApplyTime Histogram     // of each applied entry: from its append until it was applied
	Refused   atomic.Uint64 // ops refused because the backlog was full
}

// Histogram counts durations in fixed buckets, each twice as wide as the one before. Counting a duration
// costs two atomic additions and no memory.
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

// Read returns the counts so far. A duration that is counted meanwhile may be in Counts and not yet in Sum.
func (h *Histogram) Read() Distribution {
	d := Distribution{Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		d.Counts[i] = h.counts[i].Load()
	}
	return d
}

// Distribution is a copy of a Histogram's counts.
type Distribution struct {
	Counts [Buckets]uint64 // by bucket
	Sum    time.Duration
}

// Count returns the number of durations.
func (d *Distribution) Count() (n uint64) {
	for _, count := range d.Counts {
		n += count
	}
	return n
}

// Mean returns the average duration, or 0 if there are none.
func (d *Distribution) Mean() time.Duration {
	n := d.Count()
	if n == 0 {
		return 0
	}
	return d.Sum / time.Duration(n)
}

// Quantile returns the duration that the fraction q (0 to 1) of all durations does not exceed, or 0 if there
// are none. It finds the right bucket and assumes that the durations within it are spread evenly, so above a
// microsecond the result is off by a factor of two at most. For the last bucket, Quantile returns the lower
// bound, because no upper bound is known.
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
