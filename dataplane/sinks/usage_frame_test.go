package sinks

import (
	"fmt"
	"testing"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// TestFrameOfMeteredQueues checks that the largest row of RecordUsage fits into a frame, that a row has all its
// quantities in one frame, and that the quantities of several rows are summed.
func TestFrameOfMeteredQueues(t *testing.T) {
	t.Parallel()
	largest := func(prefix string) *state.Usage {
		m := &state.ShardMeters{OpenSeconds: 60, StoredByteSeconds: 7}
		for i := range job.MaxMeteredQueues {
			m.Queues = append(m.Queues, &state.QueueMeters{Queue: fmt.Sprint(prefix, i), JobsEnqueued: 1, JobsCompleted: 2, ActiveSeconds: 3})
		}
		return &state.Usage{ClockNs: 1, Meters: m}
	}
	s := sums{of: map[billing.Dimensions]billing.Quantities{}}
	for i, c := range []struct {
		row  *state.Usage
		fits bool
	}{{largest("a"), true}, {largest("b"), false}, {largest("a"), true}} {
		if fits, err := s.add(c.row); err != nil || fits != c.fits {
			t.Fatalf("row %d fits: %v, %v", i, fits, err)
		}
	}
	if want := 3*job.MaxMeteredQueues + 2; s.rows != want || len(s.order) != job.MaxMeteredQueues+1 {
		t.Errorf("%d rows of %d keys, want %d", s.rows, len(s.order), want)
	}
	if got, want := s.of[billing.Dimensions{Queue: "a0"}], (billing.Quantities{billing.JobsEnqueued: 2, billing.JobsCompleted: 4, billing.ActiveSeconds: 6}); got != want {
		t.Errorf("a queue has %v", got)
	}
	if got, want := s.of[billing.Dimensions{}], (billing.Quantities{billing.OpenSeconds: 120, billing.StoredByteSeconds: 14}); got != want {
		t.Errorf("the shard has %v", got)
	}
}
