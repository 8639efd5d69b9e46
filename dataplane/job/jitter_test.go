package job_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
)

// A varied delay is within its percentage of the exact one and never above the longest, for inputs of any
// size. The same job and attempt get the same delay.
func TestVariedDelay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := &job.Retry{
			Backoff:       job.Backoff(rapid.Int32Range(int32(job.BackoffNone), int32(job.BackoffExponential)).Draw(t, "backoff")),
			BaseDelayMs:   rapid.Int64Min(0).Draw(t, "base"),
			MaxDelayMs:    rapid.Int64Min(0).Draw(t, "most"),
			JitterPercent: rapid.Uint32Range(0, 100).Draw(t, "percent"),
		}
		id := job.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		attempt := rapid.Uint32Range(0, 100).Draw(t, "attempt")
		exact, got := r.DelayMs(attempt), r.VariedDelayMs(id, attempt)
		span := exact/100*int64(r.JitterPercent) + exact%100*int64(r.JitterPercent)/100
		if got < exact-span || got-exact > span {
			t.Fatalf("%v after attempt %d: %d ms, which is not within %d of %d", r, attempt, got, span, exact)
		}
		if got < 0 || got > r.MaxDelayMs {
			t.Fatalf("%v after attempt %d: %d ms, which is negative or more than %d", r, attempt, got, r.MaxDelayMs)
		}
		if again := r.VariedDelayMs(id, attempt); again != got {
			t.Fatalf("%d ms, and then %d", got, again)
		}
	})
}

// Jobs that failed together come back over the whole range. They do not gather at the longest delay if that
// cuts the range.
func TestVariedDelaySpreads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r         *job.Retry
		low, high int64
	}{
		"free": {&job.Retry{Backoff: job.BackoffFixed, BaseDelayMs: 1000, MaxDelayMs: 9000, JitterPercent: 20}, 800, 1200},
		"cut":  {&job.Retry{Backoff: job.BackoffFixed, BaseDelayMs: 9000, MaxDelayMs: 1000, JitterPercent: 20}, 800, 1000},
	} {
		const jobs, parts = 4000, 4
		var seen [parts]int
		for i := range jobs {
			at := c.r.VariedDelayMs(job.ID{byte(i >> 8), byte(i)}, 1)
			if at < c.low || at > c.high {
				t.Fatalf("%s: %d ms is not between %d and %d", name, at, c.low, c.high)
			}
			seen[(at-c.low)*parts/(c.high-c.low+1)]++
		}
		for part, n := range seen {
			if n < jobs/parts*8/10 || n > jobs/parts*12/10 {
				t.Errorf("%s: %d of %d jobs fall into part %d of %d", name, n, jobs, part, parts)
			}
		}
	}
	r := &job.Retry{Backoff: job.BackoffFixed, BaseDelayMs: 1 << 40, MaxDelayMs: 1 << 41, JitterPercent: 50}
	if r.VariedDelayMs(job.ID{1}, 1) == r.VariedDelayMs(job.ID{1}, 2) {
		t.Error("two attempts of a job wait the same")
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for o := range job.Outcome(len(job.Outcome_name)) {
		if got, ok := job.ParseOutcome(o.Word()); !ok || got != o {
			t.Errorf("%s is read as %s, %v", o.Word(), got.Word(), ok)
		}
	}
	if got := job.Outcome(99).Word(); got != "outcome(99)" {
		t.Errorf("an outcome that is none is %q", got)
	}
	if _, ok := job.ParseOutcome("lost"); ok {
		t.Error("an outcome that is none is read")
	}
}
