package job_test

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backoff job.Backoff
		want    [5]int64 // after attempts 1 to 5, base 5 s, most 30 s
	}{
		{job.BackoffNone, [5]int64{}},
		{job.BackoffFixed, [5]int64{5000, 5000, 5000, 5000, 5000}},
		{job.BackoffLinear, [5]int64{5000, 10000, 15000, 20000, 25000}},
		{job.BackoffExponential, [5]int64{5000, 10000, 20000, 30000, 30000}},
	} {
		r := &job.Retry{MaxAttempts: 9, Backoff: c.backoff, BaseDelayMs: 5000, MaxDelayMs: 30000}
		for i, want := range c.want {
			if got := r.DelayMs(uint32(i + 1)); got != want {
				t.Errorf("%s after attempt %d: %d ms, want %d", c.backoff.Word(), i+1, got, want)
			}
		}
	}
}

// The delay equals the capped result of exact arithmetic, for inputs of any size.
func TestDelayIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := &job.Retry{
			Backoff:     job.Backoff(rapid.Int32Range(int32(job.BackoffNone), int32(job.BackoffExponential)).Draw(t, "backoff")),
			BaseDelayMs: rapid.Int64Min(0).Draw(t, "base"),
			MaxDelayMs:  rapid.Int64Min(0).Draw(t, "most"),
		}
		attempt := rapid.Uint32Min(1).Draw(t, "attempt")
		if rapid.Bool().Draw(t, "few") {
			attempt = attempt%70 + 1
		}
		want := big.NewInt(r.BaseDelayMs)
		switch r.Backoff {
		case job.BackoffNone:
			want.SetInt64(0)
		case job.BackoffLinear:
			want.Mul(want, big.NewInt(int64(attempt)))
		case job.BackoffExponential:
			want.Lsh(want, uint(min(attempt-1, 128)))
		}
		if most := big.NewInt(r.MaxDelayMs); want.Cmp(most) > 0 {
			want = most
		}
		if got := r.DelayMs(attempt); got != want.Int64() {
			t.Fatalf("%v after attempt %d: %d ms, want %d", r, attempt, got, want)
		}
	})
}

func TestDelayOfNothing(t *testing.T) {
	t.Parallel()
	if got := (*job.Retry)(nil).DelayMs(1); got != 0 {
		t.Errorf("no policy waits %d ms", got)
	}
	if got := (&job.Retry{Backoff: job.BackoffFixed, BaseDelayMs: -5, MaxDelayMs: 10}).DelayMs(1); got != 0 {
		t.Errorf("a negative base waits %d ms", got)
	}
}
