package job_test

import (
	"math"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

func TestProvesLease(t *testing.T) {
	t.Parallel()
	lease := &job.Lease{Token: []byte("0123456789abcdef"), WorkerId: "w1"}
	for _, c := range []struct {
		name    string
		lease   *job.Lease
		expired bool
		token   string
		worker  string
		want    bool
	}{
		{"token", lease, false, "0123456789abcdef", "", true},
		{"token after an expiry", lease, true, "0123456789abcdef", "", true},
		{"token decides over worker", lease, false, "0123456789abcdef", "w2", true},
		{"stale token", lease, false, "xxxxxxxxxxxxxxxx", "", false},
		{"stale token of the right worker", lease, false, "xxxxxxxxxxxxxxxx", "w1", false},
		{"prefix of the token", lease, false, "0123", "", false},
		{"worker", lease, false, "", "w1", true},
		{"worker after an expiry", lease, true, "", "w1", true},
		{"other worker", lease, false, "", "w2", false},
		{"neither", lease, false, "", "", true},
		{"neither after an expiry", lease, true, "", "", false},
		{"token, never leased", nil, false, "0123456789abcdef", "", false},
		{"worker, never leased", nil, false, "", "w1", false},
	} {
		j := &job.Job{Lease: c.lease, LeaseExpired: c.expired}
		if got := job.ProvesLease(j, []byte(c.token), c.worker); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestReclaimAt(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	for _, c := range []struct {
		name                       string
		expires, length, term, due time.Duration
	}{
		{"term began long ago", 100 * time.Second, time.Minute, 10 * time.Second, 100 * time.Second},
		{"expired before the term", 100 * time.Second, time.Minute, 200 * time.Second, 210 * time.Second},
		{"short lease waits its own length", 100 * time.Second, 3 * time.Second, 200 * time.Second, 203 * time.Second},
		{"lease of exactly the grace", 100 * time.Second, job.ReclaimGrace, 200 * time.Second, 210 * time.Second},
		{"lease outlives the grace", 215 * time.Second, time.Minute, 200 * time.Second, 215 * time.Second},
		{"no term yet", 5 * time.Second, time.Minute, 0, 10 * time.Second},
	} {
		j := &job.Job{Lease: &job.Lease{ExpiresNs: int64(c.expires), LengthMs: c.length.Milliseconds()}}
		if got := job.ReclaimAt(j, int64(c.term)); got != int64(c.due) {
			t.Errorf("%s: %v s, want %v s", c.name, got/second, int64(c.due)/second)
		}
	}
}

func TestUsageAdd(t *testing.T) {
	t.Parallel()
	first := &job.Usage{InputTokens: 1, OutputTokens: 2, CacheCreationTokens: 3, CacheReadTokens: 4, Model: "m1", Provider: "p1", CostNanoUsd: 5}
	sum, err := first.Add(&job.Usage{InputTokens: 10, OutputTokens: 20, CacheCreationTokens: 30, CacheReadTokens: 40, Model: "m2", CostNanoUsd: 50})
	if err != nil {
		t.Fatal(err)
	}
	want := &job.Usage{InputTokens: 11, OutputTokens: 22, CacheCreationTokens: 33, CacheReadTokens: 44, Model: "m2", Provider: "p1", CostNanoUsd: 55}
	if sum.String() != want.String() {
		t.Errorf("sum is %v, want %v", sum, want)
	}
	if sum, err := (*job.Usage)(nil).Add(first); err != nil || sum.String() != first.String() {
		t.Errorf("nothing and %v make %v, %v", first, sum, err)
	}
	if sum, err := first.Add(nil); err != nil || sum != first {
		t.Errorf("a report of nothing makes %v, %v", sum, err)
	}
}

func TestUsageOverflow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, report *job.Usage }{
		{&job.Usage{InputTokens: math.MaxInt64 - 1}, &job.Usage{InputTokens: 1}},
		{&job.Usage{OutputTokens: math.MaxInt64 - 1}, &job.Usage{OutputTokens: 1}},
		{&job.Usage{CacheCreationTokens: math.MaxInt64 - 1}, &job.Usage{CacheCreationTokens: 1}},
		{&job.Usage{CacheReadTokens: math.MaxInt64 - 1}, &job.Usage{CacheReadTokens: 1}},
		{&job.Usage{CostNanoUsd: math.MaxInt64 - 1}, &job.Usage{CostNanoUsd: 1}},
	} {
		full, err := c.at.Add(c.report)
		if err != nil {
			t.Errorf("%v and %v: %v", c.at, c.report, err)
			continue
		}
		if _, err := full.Add(c.report); err != job.ErrUsageOverflow {
			t.Errorf("%v and %v: error %v, want ErrUsageOverflow", full, c.report, err)
		}
	}
}
