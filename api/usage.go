package api

import "github.com/corvo/corvo/billing/money"

// ReportedUsage is a worker's usage of models since its last report. The counts do not overlap: input that
// was read from a cache, or written to one, is not in InputTokens. If CostUSD is set, even to 0, it is the
// cost. Without CostUSD the cost is the price of the tokens in the price book, or the highest known price if
// the model has none. Numbers are rounded to whole tokens and to a billionth of a dollar.
//
// The server sets a report aside, so that no sum contains it, if a number is negative, the cost is above
// 1,000,000 USD (reported or computed), the tokens of all kinds are more than 10^12, a name is invalid, or
// the sum of the job would be too large. Budgets then count the attempt's reservation as spent. The response
// reports the reason; the ack, fail or heartbeat itself takes effect.
type ReportedUsage struct {
	InputTokens         money.ReportedCount `json:"input_tokens"`
	OutputTokens        money.ReportedCount `json:"output_tokens"`
	CacheCreationTokens money.ReportedCount `json:"cache_creation_tokens"`
	CacheReadTokens     money.ReportedCount `json:"cache_read_tokens"`
	Model               string              `json:"model"`
	Provider            string              `json:"provider"`
	CostUSD             *money.Reported     `json:"cost_usd,omitempty"`
}

// Usage is the sum of the reports of all attempts of a job. Its cost is exact to nine decimals. Model and
// Provider are the last ones that a report named.
type Usage struct {
	InputTokens         int64      `json:"input_tokens"`
	OutputTokens        int64      `json:"output_tokens"`
	CacheCreationTokens int64      `json:"cache_creation_tokens"`
	CacheReadTokens     int64      `json:"cache_read_tokens"`
	Model               string     `json:"model"`
	Provider            string     `json:"provider"`
	CostUSD             money.Nano `json:"cost_usd"`
}

// UsageSums are sums of usage reports. A job counts in the period of its first report.
type UsageSums struct {
	Reports             int64       `json:"reports"`
	Jobs                int64       `json:"jobs"`
	InputTokens         money.Count `json:"input_tokens"`
	OutputTokens        money.Count `json:"output_tokens"`
	CacheCreationTokens money.Count `json:"cache_creation_tokens"`
	CacheReadTokens     money.Count `json:"cache_read_tokens"`
	CostUSD             money.Total `json:"cost_usd"`          // reported, or else computed
	ReportedCostUSD     money.Total `json:"reported_cost_usd"` // as workers reported it
	ComputedCostUSD     money.Total `json:"computed_cost_usd"` // from the price book, including the ceiling for unknown models
	DifferenceUSD       money.Total `json:"difference_usd"`    // reported minus computed, of reports with both
	UnpricedReports     int64       `json:"unpriced_reports"`  // of models without a price
	RejectedReports     int64       `json:"rejected_reports"`  // set aside: in no other number
}

// SummaryGroup is the usage of one group, such as a queue.
type SummaryGroup struct {
	Key string `json:"key"` // a queue, a model, a provider, a tag's value, or a day as 2006-01-02; "" = none
	UsageSums
}

// UsageSummary is the response of GET /usage/summary. Groups are sorted by cost, the highest first; days
// are sorted by date. Truncated means that there are more groups; Totals includes them.
type UsageSummary struct {
	Period    Duration       `json:"period"`
	From      Time           `json:"from"`
	To        Time           `json:"to"` // exclusive
	Totals    UsageSums      `json:"totals"`
	Groups    []SummaryGroup `json:"groups"`
	Truncated bool           `json:"truncated,omitempty"`
	AsOf      Time           `json:"as_of"` // the sums include every report up to this moment
}
