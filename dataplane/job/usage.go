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

// AddCost adds a cost to a sum. It fails with ErrUsageOverflow, and changes nothing
// then.
func (u *Usage) AddCost(nanoUSD int64) error {
	if nanoUSD > math.MaxInt64-u.CostNanoUsd {
		return ErrUsageOverflow
	}
	u.CostNanoUsd += nanoUSD
	return nil
}

// CheckUsage reports all that is wrong with one report; nil is no report.
func CheckUsage(u *Usage) []error {
	if u == nil {
		return nil
	}
	var errs []error
	for _, n := range [...]struct {
		name  string
		value int64
	}{
		{"input_tokens", u.InputTokens},
		{"output_tokens", u.OutputTokens},
		{"cache_creation_tokens", u.CacheCreationTokens},
		{"cache_read_tokens", u.CacheReadTokens},
		{"cost_usd", u.CostNanoUsd},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s is negative; report zero or more", n.name))
		}
	}
	for _, w := range [...]struct{ name, value string }{{"model", u.Model}, {"provider", u.Provider}} {
		if err := CheckText(w.value, MaxUsageWord); err != nil {
			errs = append(errs, fmt.Errorf("%s %w", w.name, err))
		}
	}
	return errs
}
