package job

import (
	"errors"
	"fmt"
	"math"
)

// ErrUsageOverflow is returned by Usage.Add where a sum would not fit.
var ErrUsageOverflow = errors.New("the job's usage would exceed the largest number that can be kept; report less")

// Add is the sum of u and a further report. The report's model and provider
// replace u's where it names them. Neither argument is changed; both may be nil,
// and so is the sum of two nils. It fails with ErrUsageOverflow.
func (u *Usage) Add(report *Usage) (*Usage, error) {
	if report == nil {
		return u, nil
	}
	sum := &Usage{Model: u.GetModel(), Provider: u.GetProvider()}
	overflow := false
	add := func(a, b int64) int64 {
		overflow = overflow || b > math.MaxInt64-a
		return a + b
	}
	sum.InputTokens = add(u.GetInputTokens(), report.InputTokens)
	sum.OutputTokens = add(u.GetOutputTokens(), report.OutputTokens)
	sum.CacheCreationTokens = add(u.GetCacheCreationTokens(), report.CacheCreationTokens)
	sum.CacheReadTokens = add(u.GetCacheReadTokens(), report.CacheReadTokens)
	sum.CostNanoUsd = add(u.GetCostNanoUsd(), report.CostNanoUsd)
	if overflow {
		return nil, ErrUsageOverflow
	}
	if report.Model != "" {
		sum.Model = report.Model
	}
	if report.Provider != "" {
		sum.Provider = report.Provider
	}
	return sum, nil
}

// Why a usage report is kept aside: its words in answers, events and the view.
const (
	RejectedCost     = "cost_over_limit"     // above MaxReportCost, as reported or as computed
	RejectedTokens   = "tokens_over_limit"   // above MaxReportTokens
	RejectedNegative = "negative"            // a count or the cost is
	RejectedName     = "name_not_acceptable" // the model's or the provider's
	RejectedJob      = "job_over_limit"      // the job's sum would be above MaxJobCost or MaxJobTokens
)

// Fault says why a report has to be kept aside, whatever its job: one of the words
// above; empty where nothing is wrong with it, and for no report. What is wrong with a report is
// never a reason to refuse the work it came with, which is done and would be done, and
// paid for, again.
func (u *Usage) Fault() string {
	switch {
	case u == nil:
		return ""
	case u.Rejected != "":
		return u.Rejected
	case min(u.InputTokens, u.OutputTokens, u.CacheCreationTokens, u.CacheReadTokens, u.CostNanoUsd) < 0:
		return RejectedNegative
	case !u.tokensWithin(MaxReportTokens):
		return RejectedTokens
	case u.CostNanoUsd > MaxReportCost:
		return RejectedCost
	}
	return ""
}

// WithinJob says whether a sum is one that a job may have.
func (u *Usage) WithinJob() bool { return u.CostNanoUsd <= MaxJobCost && u.tokensWithin(MaxJobTokens) }

// tokensWithin says whether all tokens together, none of which are negative, are at most
// so many.
func (u *Usage) tokensWithin(most int64) bool {
	for _, n := range [...]int64{u.InputTokens, u.OutputTokens, u.CacheCreationTokens, u.CacheReadTokens} {
		if n > most {
			return false
		}
		most -= n
	}
	return true
}

// CheckUsage reports what makes a report one that cannot be kept, not even aside; nil is
// no report. Who proposes it has seen to it that there is nothing.
func CheckUsage(u *Usage) []error {
	if u == nil {
		return nil
	}
	var errs []error
	for _, w := range [...]struct{ name, value string }{{"model", u.Model}, {"provider", u.Provider}, {"rejected", u.Rejected}} {
		if err := CheckText(w.value, MaxUsageWord); err != nil {
			errs = append(errs, fmt.Errorf("%s %w", w.name, err))
		}
	}
	return errs
}
