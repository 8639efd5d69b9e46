package loadgen

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// latencies generates latencies of every order of magnitude up to the longest that a histogram tells apart.
func latencies() *rapid.Generator[[]time.Duration] {
	one := rapid.Custom(func(t *rapid.T) time.Duration {
		most := time.Duration(1) << rapid.IntRange(0, 41).Draw(t, "bits")
		return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, "latency"))
	})
	return rapid.SliceOfN(one, 1, 200)
}

func histogramOf(all []time.Duration) *Histogram {
	h := &Histogram{}
	for _, d := range all {
		h.Record(d)
	}
	return h
}

// A quantile equals that of the sorted latencies or exceeds it by at most a 128th.
func TestQuantilesAreThoseOfTheSorted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := latencies().Draw(t, "latencies")
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		h := histogramOf(all)
		slices.Sort(all)
		exact := all[max(int(math.Ceil(share*float64(len(all)))), 1)-1]
		got := h.Quantile(share)
		if got < exact || float64(got) > float64(exact)*(1+1.0/halfBuckets) {
			t.Fatalf("quantile %v of %v is %d, want %d", share, all, got, exact)
		}
		if last := all[len(all)-1]; h.Max() != last || h.Quantile(1) != last {
			t.Fatalf("the most is %d, %d, want %d", h.Max(), h.Quantile(1), last)
		}
	})
}

// Merged histograms equal one histogram that recorded everything.
func TestMergedIsRecordedTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := latencies().Draw(t, "a"), latencies().Draw(t, "b")
		whole, parts := histogramOf(append(slices.Clone(a), b...)), &Histogram{}
		for _, h := range []*Histogram{{}, histogramOf(a), histogramOf(b), {}} {
			parts.Merge(h)
		}
		if parts.Count() != uint64(len(a)+len(b)) {
			t.Fatalf("merged %d values, want %d", parts.Count(), len(a)+len(b))
		}
		if parts.Mean() != whole.Mean() || parts.Max() != whole.Max() {
			t.Fatalf("merged: mean %v, max %v; together: mean %v, max %v", parts.Mean(), parts.Max(), whole.Mean(), whole.Max())
		}
		if diff := cmp.Diff(whole.counts, parts.counts); diff != "" {
			t.Fatalf("counts (-together +merged):\n%s", diff)
		}
	})
}

// Every latency lies in its bucket, and buckets have neither gaps nor overlaps.
func TestBucketsAreInOrder(t *testing.T) {
	t.Parallel()
	for bucket := 1; bucket < bucketCount; bucket++ {
		above := upperBound(bucket-1) + 1
		if bucketOf(above) != bucket || bucketOf(upperBound(bucket)) != bucket {
			t.Fatalf("bucket %d has %d to %d, which are counted in %d and %d", bucket, above, upperBound(bucket), bucketOf(above), bucketOf(upperBound(bucket)))
		}
	}
}

func TestHistogramAtItsBounds(t *testing.T) {
	t.Parallel()
	var none Histogram
	if none.Mean() != 0 || none.Max() != 0 || none.Count() != 0 {
		t.Errorf("an empty histogram: mean %v, max %v of %d", none.Mean(), none.Max(), none.Count())
	}
	if got := none.Quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
	var h Histogram
	h.Record(-time.Second)
	h.RecordN(24*time.Hour, 3)
	if h.Quantile(0.25) != 0 || h.Quantile(0.5) != 24*time.Hour {
		t.Errorf("quantiles below and above: %v, %v", h.Quantile(0.25), h.Quantile(0.5))
	}
	if h.Max() != 24*time.Hour || h.Count() != 4 || h.Mean() != 18*time.Hour {
		t.Errorf("below and above: max %v of %d, mean %v", h.Max(), h.Count(), h.Mean())
	}
}
