package job_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
)

// expect checks that a value at its bound passes and one beyond it does not.
func expect(t *testing.T, name string, at, beyond error) {
	t.Helper()
	if at != nil {
		t.Errorf("%s at the bound: %v", name, at)
	}
	if beyond == nil {
		t.Errorf("%s beyond the bound is accepted", name)
	}
}

func first(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

func TestQueueNames(t *testing.T) {
	t.Parallel()
	rule := regexp.MustCompile(fmt.Sprintf(`\A[A-Za-z0-9._:-]{1,%d}\z`, job.MaxQueueName))
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9._:-]{1,140}`)).Draw(t, "name")
		want := rule.MatchString(name)
		if got := job.CheckStoredQueueName(name) == nil; got != want {
			t.Fatalf("stored %q: %v, want %v", name, got, want)
		}
		want = want && name != "." && name != ".."
		if got := job.CheckQueueName(name) == nil; got != want {
			t.Fatalf("%q: %v, want %v", name, got, want)
		}
	})
	for _, name := range []string{".", ".."} {
		expect(t, "name in a path", job.CheckQueueName("."+name+"."), job.CheckQueueName(name))
		if err := job.CheckStoredQueueName(name); err != nil {
			t.Errorf("a store may have %q: %v", name, err)
		}
	}
	expect(t, "queue name", job.CheckQueueName(strings.Repeat("q", job.MaxQueueName)), job.CheckQueueName(strings.Repeat("q", job.MaxQueueName+1)))
	expect(t, "shortest name", job.CheckQueueName("q"), job.CheckQueueName(""))
}

func TestTextBounds(t *testing.T) {
	t.Parallel()
	expect(t, "text", job.CheckText(strings.Repeat("é", 4), 8), job.CheckText(strings.Repeat("é", 4)+"x", 8))
	expect(t, "UTF-8", job.CheckText("é", 8), job.CheckText("\xff", 8))
}

// pairs makes n pairs in order.
func pairs(n int) []*job.Pair {
	out := make([]*job.Pair, n)
	for i := range out {
		out[i] = &job.Pair{Name: fmt.Sprintf("n%05d", i), Value: "v"}
	}
	return out
}

func TestPairBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		check             func([]*job.Pair) []error
		most, names, vals int
	}{
		{"tags", job.CheckTags, job.MaxTags, job.MaxTagName, job.MaxTagValue},
		{"headers", job.CheckHeaders, job.MaxHeaders, job.MaxHeaderName, job.MaxHeaderValue},
	} {
		expect(t, c.name, first(c.check(pairs(c.most))), first(c.check(pairs(c.most+1))))
		named := func(n int) []*job.Pair { return []*job.Pair{{Name: strings.Repeat("n", n)}} }
		expect(t, c.name+" name", first(c.check(named(c.names))), first(c.check(named(c.names+1))))
		valued := func(n int) []*job.Pair { return []*job.Pair{{Name: "n", Value: strings.Repeat("v", n)}} }
		expect(t, c.name+" value", first(c.check(valued(c.vals))), first(c.check(valued(c.vals+1))))
	}
}

func TestPairsAreSortedAndUnique(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names string
		wrong int
	}{
		{"", 0}, {"a", 0}, {"a b", 0}, {"b a", 1}, {"a a", 1}, {"a b b a", 2},
	} {
		var list []*job.Pair
		for _, n := range strings.Fields(c.names) {
			list = append(list, &job.Pair{Name: n})
		}
		if errs := job.CheckTags(list); len(errs) != c.wrong {
			t.Errorf("%q: %v, want %d errors", c.names, errs, c.wrong)
		}
	}
	if errs := job.CheckTags([]*job.Pair{{}, nil, {Name: "\xff", Value: "\xff"}}); len(errs) != 4 {
		t.Errorf("all that is wrong is not said: %v", errs)
	}
}

func TestRetryBounds(t *testing.T) {
	t.Parallel()
	change := func(f func(*job.Retry)) error {
		r := job.NewRetry()
		f(r)
		return first(job.CheckRetry(r))
	}
	attempts := func(n uint32) error { return change(func(r *job.Retry) { r.MaxAttempts = n }) }
	expect(t, "most attempts", attempts(job.MaxAttempts), attempts(job.MaxAttempts+1))
	expect(t, "fewest attempts", attempts(1), attempts(0))
	backoff := func(b job.Backoff) error { return change(func(r *job.Retry) { r.Backoff = b }) }
	expect(t, "last backoff", backoff(job.BackoffExponential), backoff(job.BackoffExponential+1))
	expect(t, "first backoff", backoff(job.BackoffNone), backoff(job.BackoffNone-1))
	most := job.MaxRetryDelay.Milliseconds()
	base := func(ms int64) error { return change(func(r *job.Retry) { r.BaseDelayMs = ms }) }
	expect(t, "longest base delay", base(most), base(most+1))
	expect(t, "shortest base delay", base(0), base(-1))
	longest := func(ms int64) error { return change(func(r *job.Retry) { r.MaxDelayMs = ms }) }
	expect(t, "longest delay", longest(most), longest(most+1))
	expect(t, "shortest longest delay", longest(0), longest(-1))
	if errs := job.CheckRetry(nil); len(errs) != 2 {
		t.Errorf("no policy at all: %v, want two errors", errs)
	}
}

func TestLeaseBounds(t *testing.T) {
	t.Parallel()
	most := job.MaxLease.Milliseconds()
	expect(t, "longest lease", job.CheckLeaseLength(most), job.CheckLeaseLength(most+1))
	expect(t, "shortest lease", job.CheckLeaseLength(1), job.CheckLeaseLength(0))
}

func TestScheduleBounds(t *testing.T) {
	t.Parallel()
	const now = int64(1_700_000_000 * time.Second)
	expect(t, "schedule", job.CheckSchedule(now+int64(job.MaxSchedule), now), job.CheckSchedule(now+int64(job.MaxSchedule)+1, now))
	expect(t, "past", job.CheckSchedule(0, now), job.CheckSchedule(-1, now))
}

func TestUsageBounds(t *testing.T) {
	t.Parallel()
	model := func(n int) error { return first(job.CheckUsage(&job.Usage{Model: strings.Repeat("m", n)})) }
	expect(t, "model", model(job.MaxUsageWord), model(job.MaxUsageWord+1))
	provider := func(n int) error { return first(job.CheckUsage(&job.Usage{Provider: strings.Repeat("p", n)})) }
	expect(t, "provider", provider(job.MaxUsageWord), provider(job.MaxUsageWord+1))
	if errs := job.CheckUsage(nil); errs != nil {
		t.Errorf("no report: %v", errs)
	}
}

// A usage report that cannot be counted causes no refusal. It is kept aside, with one of a few words as the
// reason.
func TestUsageFaults(t *testing.T) {
	t.Parallel()
	const most = job.MaxReportTokens
	for _, c := range []struct {
		u    *job.Usage
		want string
	}{
		{nil, ""}, {&job.Usage{}, ""},
		{&job.Usage{InputTokens: -1}, job.RejectedNegative}, {&job.Usage{OutputTokens: -1}, job.RejectedNegative},
		{&job.Usage{CacheCreationTokens: math.MinInt64}, job.RejectedNegative}, {&job.Usage{CacheReadTokens: -1}, job.RejectedNegative},
		{&job.Usage{CostNanoUsd: -1}, job.RejectedNegative},
		{&job.Usage{CostNanoUsd: job.MaxReportCost}, ""}, {&job.Usage{CostNanoUsd: job.MaxReportCost + 1}, job.RejectedCost},
		{&job.Usage{InputTokens: most}, ""}, {&job.Usage{InputTokens: most + 1}, job.RejectedTokens},
		{&job.Usage{InputTokens: most - 3, OutputTokens: 1, CacheCreationTokens: 1, CacheReadTokens: 1}, ""},
		{&job.Usage{InputTokens: most - 3, OutputTokens: 1, CacheCreationTokens: 1, CacheReadTokens: 2}, job.RejectedTokens},
		{&job.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64}, job.RejectedTokens},
		{&job.Usage{Rejected: job.RejectedName}, job.RejectedName},
	} {
		if got := c.u.Fault(); got != c.want {
			t.Errorf("%v: %q, want %q", c.u, got, c.want)
		}
	}
	for u, within := range map[*job.Usage]bool{
		{CostNanoUsd: job.MaxJobCost}: true, {CostNanoUsd: job.MaxJobCost + 1}: false,
		{OutputTokens: job.MaxJobTokens}: true, {OutputTokens: job.MaxJobTokens, InputTokens: 1}: false,
	} {
		if u.WithinJob() != within {
			t.Errorf("a job may have %v: %v, want %v", u, !within, within)
		}
	}
}
