package loadgen

import (
	"math/bits"
	"time"
)

// The form of a Histogram. A bucket is no wider than its lower bound divided by
// halfBuckets, so that a quantile is at most 1/128 above what it stands for.
const (
	bucketBits  = 8                     // of each power of two
	halfBuckets = 1 << (bucketBits - 1) // buckets of a power of two: the leading bit is always set
	// longest is what a latency above counts as, except for Max: an hour and more of
	// waiting differ in nothing that a quantile could tell.
	longest = time.Duration(1)<<42 - 1
)

// bucketCount is as many as longest needs.
var bucketCount = bucketOf(longest) + 1

// A Histogram counts latencies in buckets that widen with them, as an HDR histogram
// does: recording is an increment, memory is fixed, and quantiles have a relative error
// instead of an absolute one. It is not safe for concurrent use: each client has its
// own, and they are merged at the end.
type Histogram struct {
	counts []uint32
	n      uint64
	sum    time.Duration
	max    time.Duration
}

// bucketOf is where a latency is counted: as it is below 256 ns, and by its leading
// eight bits above.
func bucketOf(d time.Duration) int {
	shift := max(bits.Len64(uint64(d))-bucketBits, 0)
	return shift*halfBuckets + int(d>>shift)
}

// upperBound is the largest latency that a bucket counts.
func upperBound(bucket int) time.Duration {
	if bucket < 2*halfBuckets {
		return time.Duration(bucket)
	}
	shift := bucket/halfBuckets - 1
	return time.Duration(bucket-shift*halfBuckets+1)<<shift - 1
}

// Record counts a latency; one below zero is none.
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

// Merge counts what another has counted.
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

// Count is how many latencies were recorded.
func (h *Histogram) Count() uint64 { return h.n }

// Max is the longest of them, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean is their mean; 0 of none.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// Quantile is a latency that the given share of them, 0 to 1, does not exceed; 0 of
// none. It is the upper bound of its bucket, never above Max.
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
