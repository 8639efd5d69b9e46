package pipeline

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

// TestBucketOf checks that each bound belongs to its own bucket, and a longer duration to the next.
func TestBucketOf(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int{0: 0, 1: 0, math.MaxInt64: Buckets - 1} {
		if got := bucketOf(d); got != want {
			t.Errorf("%d ns: bucket %d, want %d", d, got, want)
		}
	}
	for i := range Buckets {
		next := min(i+1, Buckets-1)
		if at, above := bucketOf(BucketBound(i)), bucketOf(BucketBound(i)+1); at != i || above != next {
			t.Errorf("%v: bucket %d, one nanosecond more: %d; want %d and %d", BucketBound(i), at, above, i, next)
		}
	}
}

func TestDistribution(t *testing.T) {
	t.Parallel()
	var h Histogram
	none := h.Read()
	if none.Count() != 0 || none.Mean() != 0 || none.Quantile(.99) != 0 {
		t.Errorf("of none: %d, %v, %v", none.Count(), none.Mean(), none.Quantile(.99))
	}
	h.observe(-time.Second) // a clock that was set back counts as no time
	for range 89 {
		h.observe(100 * time.Microsecond) // between 64 and 128
	}
	for range 9 {
		h.observe(3 * time.Millisecond) // between 2.048 and 4.096
	}
	h.observe(time.Hour)
	d := h.Read()
	if d.Count() != 100 || d.Sum != 89*100*time.Microsecond+9*3*time.Millisecond+time.Hour || d.Mean() != d.Sum/100 {
		t.Errorf("%d durations, sum %v, mean %v", d.Count(), d.Sum, d.Mean())
	}
	for _, want := range []struct {
		q        float64
		from, to time.Duration
	}{
		{0.005, 0, time.Microsecond},
		{0.01, time.Microsecond, time.Microsecond},
		{0.5, 64 * time.Microsecond, 128 * time.Microsecond},
		{0.9, 128 * time.Microsecond, 128 * time.Microsecond},
		{0.95, 2048 * time.Microsecond, 4096 * time.Microsecond},
		{0.99, 4096 * time.Microsecond, 4096 * time.Microsecond},
		{1, BucketBound(Buckets - 2), BucketBound(Buckets - 2)},
	} {
		if got := d.Quantile(want.q); got < want.from || got > want.to {
			t.Errorf("quantile %v is %v, want from %v to %v", want.q, got, want.from, want.to)
		}
	}
}

func TestCountingTakesNoMemory(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.observe(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestStats queues one op while an entry is in flight. An op that the log refused is not counted as
// applied, and an op that the backlog refused is not counted as waiting.
func TestStats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stats Stats
		p, l := start(t, func(c *Config) {
			c.Stats = &stats
			c.Limits = Limits{BacklogOps: 16, InFlight: 1}
		})
		ctx := t.Context()
		first := propose(ctx, p, op{name: "a", class: ClassSettle})
		synctest.Wait()
		second := propose(ctx, p, op{name: "b", class: ClassSettle})
		time.Sleep(10 * time.Millisecond) // virtual
		l.entries[0].settled <- nil
		<-first
		synctest.Wait()
		time.Sleep(time.Millisecond)
		l.entries[1].settled <- errStopped
		<-second

		queue, apply := stats.QueueTime.Read(), stats.ApplyTime.Read()
		if queue.Count() != 2 || queue.Sum != 10*time.Millisecond {
			t.Errorf("%d ops waited %v, want 2 and 10ms", queue.Count(), queue.Sum)
		}
		if apply.Count() != 1 || apply.Sum != 10*time.Millisecond {
			t.Errorf("%d entries took %v, want 1 and 10ms", apply.Count(), apply.Sum)
		}

		blocker := propose(ctx, p, op{name: "c", class: ClassSettle})
		synctest.Wait()
		for range 16 {
			propose(ctx, p, op{name: "d", class: ClassSettle})
		}
		synctest.Wait()
		if n := stats.Refused.Load(); n != 0 {
			t.Errorf("%d ops refused below the bound", n)
		}
		got := <-propose(ctx, p, op{name: "e", class: ClassSettle})
		wantCode(t, got.err, api.Overloaded)
		if n := stats.Refused.Load(); n != 1 {
			t.Errorf("%d ops refused, want 1", n)
		}
		p.Stop(errStopped) // the waiting ops are never appended
		l.entries[2].settled <- nil
		<-blocker
	})
}
