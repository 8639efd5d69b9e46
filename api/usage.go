package api

import "github.com/corvo/corvo/billing/money"

// ReportedUsage is what a worker reports for its model calls since its last report. The
// counts do not overlap: input that was read from a cache, or written to one, is no
// plain input. A report without CostUSD costs what the price book says; one with it
// costs that, also where it is 0. Numbers are rounded to whole tokens and to a billionth
// of a dollar. A report that has a negative number, or more than 1,000,000 USD or 10^12
// tokens, is kept aside and counts nowhere: the answer says so, and the work it came
// with is done all the same.
type ReportedUsage struct {
	InputTokens         money.ReportedCount `json:"input_tokens"`
	OutputTokens        money.ReportedCount `json:"output_tokens"`
	CacheCreationTokens money.ReportedCount `json:"cache_creation_tokens"`
	CacheReadTokens     money.ReportedCount `json:"cache_read_tokens"`
	Model               string              `json:"model"`
	Provider            string              `json:"provider"`
	CostUSD             *money.Reported     `json:"cost_usd,omitempty"`
}

// Usage is the sum of what was reported over a job's attempts. Its cost is what
// counts, exact to nine decimals; model and provider are those named last.
type Usage struct {
	InputTokens         int64      `json:"input_tokens"`
	OutputTokens        int64      `json:"output_tokens"`
	CacheCreationTokens int64      `json:"cache_creation_tokens"`
	CacheReadTokens     int64      `json:"cache_read_tokens"`
	Model               string     `json:"model"`
	Provider            string     `json:"provider"`
	CostUSD             money.Nano `json:"cost_usd"`
}

// UsageSums are what was reported. A job counts where it reported for the first time.
type UsageSums struct {
	Reports             int64       `json:"reports"`
	Jobs                int64       `json:"jobs"`
	InputTokens         money.Count `json:"input_tokens"`
	OutputTokens        money.Count `json:"output_tokens"`
	CacheCreationTokens money.Count `json:"cache_creation_tokens"`
	CacheReadTokens     money.Count `json:"cache_read_tokens"`
	CostUSD             money.Total `json:"cost_usd"`          // what counts
	ReportedCostUSD     money.Total `json:"reported_cost_usd"` // as workers said
	ComputedCostUSD     money.Total `json:"computed_cost_usd"` // as the price book says, ceilings included
	DifferenceUSD       money.Total `json:"difference_usd"`    // reported less computed, of reports that have both
	UnpricedReports     int64       `json:"unpriced_reports"`  // of models that had no price
	RejectedReports     int64       `json:"rejected_reports"`  // kept aside: in no other number
}

// SummaryGroup is the usage that has something in common.
type SummaryGroup struct {
	Key string `json:"key"` // a queue, a model, a tag's value, a day as 2006-01-02; empty: it has none
	UsageSums
}

// UsageSummary answers GET /usage/summary. Groups are in the order of their cost, the
// dearest first; days in that of time. Truncated says that there are more groups;
// Totals has them all.
type UsageSummary struct {
	Period    Duration       `json:"period"`
	From      Time           `json:"from"`
	To        Time           `json:"to"` // the first moment after it
	Totals    UsageSums      `json:"totals"`
	Groups    []SummaryGroup `json:"groups"`
	Truncated bool           `json:"truncated,omitempty"`
	AsOf      Time           `json:"as_of"` // the sums hold everything reported up to this moment
}
