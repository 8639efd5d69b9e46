package server

import (
	"math"
	"runtime/metrics"
	"testing"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counts []uint64
		want   int64
	}{
		{[]uint64{0, 0, 0}, 0},
		{[]uint64{100, 0, 0}, 1e9},
		{[]uint64{99, 1, 0}, 1e9},
		{[]uint64{98, 2, 0}, 2e9},
		{[]uint64{0, 0, 1}, 2e9}, // beyond the last bound
	} {
		h := &metrics.Float64Histogram{Counts: c.counts, Buckets: []float64{0, 1, 2, math.Inf(1)}}
		if got := quantileNs(h, 0.99); got != c.want {
			t.Errorf("of %v: %d, want %d", c.counts, got, c.want)
		}
	}
}
