package loadgen

import (
	"math/bits"
	"time"
)

// The form of a Histogram. A bucket is no wider than its lower bound divided by halfBuckets, so that a
// quantile exceeds the exact value by at most 1/128.
const (
	bucketBits  = 8                     // of each power of two
	halfBuckets = 1 << (bucketBits - 1) // buckets of a power of two: the leading bit is always set
	// longest is the value that every longer latency counts as, except in Max, because quantiles need not
	// tell apart waits of more than an hour.
	longest = time.Duration(1)<<42 - 1
)

// bucketCount is the number of buckets up to longest.
var bucketCount = bucketOf(longest) + 1

// A Histogram counts latencies in buckets that widen with the latency, as an HDR histogram does: recording is
// an increment, memory is fixed, and quantiles have a relative error instead of an absolute one. It is not
// safe for concurrent use: each caller has its own, and the report merges them at the end.
type Histogram struct {
	counts []uint32
	n      uint64
	sum    time.Duration
	max    time.Duration
}

// bucketOf returns the bucket of a latency. Below 256 ns each latency has its own bucket; above, the leading
// eight bits choose it.
func bucketOf(d time.Duration) int {
	shift := max(bits.Len64(uint64(d))-bucketBits, 0)
	return shift*halfBuckets + int(d>>shift)
}

// upperBound returns the largest latency that a bucket counts.
func upperBound(bucket int) time.Duration {
	if bucket < 2*halfBuckets {
		return time.Duration(bucket)
	}
	shift := bucket/halfBuckets - 1
	return time.Duration(bucket-shift*halfBuckets+1)<<shift - 1
}

// Record counts a latency; a negative one counts as 0.
func (h *Histogram) Record(d time.Duration) { h.RecordN(d, 1) }

// RecordN counts a latency n times.
func (h *Histogram) RecordN(d time.Duration, n int) {
	if h.counts == nil {
		h.counts = make([]uint32, bucketCount)
	}
	d = max(d, 0)
	h.counts[bucketOf(min(d, longest))] += uint32(n)
	h.n += uint64(n)
	h.sum += d * time.Duration(n)
	h.max = max(h.max, d)
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	if other.n == 0 {
		return
	}
	if h.counts == nil {
		h.counts = make([]uint32, bucketCount)
	}
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count returns the number of recorded latencies.
func (h *Histogram) Count() uint64 { return h.n }

// Max returns the longest recorded latency exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the mean latency; 0 if none was recorded.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// Quantile returns a latency that the given share of the recorded ones, 0 to 1, does not exceed; 0 if none
// was recorded. It returns the upper bound of a bucket, but never more than Max.
func (h *Histogram) Quantile(share float64) time.Duration {
	rank := uint64(share * float64(h.n))
	if float64(rank) < share*float64(h.n) || rank == 0 {
		rank++
	}
	seen := uint64(0)
	for bucket, n := range h.counts {
		if seen += uint64(n); seen >= rank {
			if bucket == len(h.counts)-1 {
				return h.max
			}
			return min(upperBound(bucket), h.max)
		}
	}
	return h.max
}
