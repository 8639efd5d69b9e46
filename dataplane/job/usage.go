package job

import (
	"errors"
	"fmt"
	"math"
)

// ErrUsageOverflow reports that a sum of Usage.Add would not fit.
var ErrUsageOverflow = errors.New("the job's usage would exceed the largest number that can be kept; report less")

// Add returns the sum of u and a further report, or u itself if report is nil. The report's model and
// provider replace u's if it names them. Neither argument is changed; both may be nil. Add fails with
// ErrUsageOverflow if a sum does not fit.
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

// The reasons for rejecting a usage report, as in answers, events and the view.
const (
	RejectedCost     = "cost_over_limit"     // above MaxReportCost, as reported or as computed
	RejectedTokens   = "tokens_over_limit"   // above MaxReportTokens
	RejectedNegative = "negative"            // a count or the cost is negative
	RejectedName     = "name_not_acceptable" // the name of the model or the provider is invalid
	RejectedJob      = "job_over_limit"      // the job's sum would be above MaxJobCost or MaxJobTokens
)

// Fault returns the reason for rejecting a report independent of its job, or "" if there is none. A fault of
// a report never refuses the request it came with, because the refused work would be done, and paid for,
// again.
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

// WithinJob reports whether a job may have this sum.
func (u *Usage) WithinJob() bool { return u.CostNanoUsd <= MaxJobCost && u.tokensWithin(MaxJobTokens) }

// tokensWithin reports whether all tokens together, none of which are negative, are at most `most`.
func (u *Usage) tokensWithin(most int64) bool {
	for _, n := range [...]int64{u.InputTokens, u.OutputTokens, u.CacheCreationTokens, u.CacheReadTokens} {
		if n > most {
			return false
		}
		most -= n
	}
	return true
}

// CheckUsage reports the faults that keep a report from being stored at all, even as rejected. A nil report
// has none. The proposer removes these faults beforehand.
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
