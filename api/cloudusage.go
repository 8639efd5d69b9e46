package api

import "github.com/corvo/corvo/billing/money"

// UsageTotals is what was used. Costs are exact to nine decimals.
type UsageTotals struct {
	Reports             money.Count `json:"reports"`          // usage reports of workers
	RejectedReports     money.Count `json:"rejected_reports"` // kept aside, in no other number
	InputTokens         money.Count `json:"input_tokens"`
	OutputTokens        money.Count `json:"output_tokens"`
	CacheCreationTokens money.Count `json:"cache_creation_tokens"`
	CacheReadTokens     money.Count `json:"cache_read_tokens"`
	CostUSD             money.Total `json:"cost_usd"` // as workers reported it, or else as computed

	Requests      money.Count `json:"requests"` // through the gateway
	RequestBytes  money.Count `json:"request_bytes"`
	ResponseBytes money.Count `json:"response_bytes"`
}

// UsageGroup is the part of a usage answer with one key.
type UsageGroup struct {
	Key string `json:"key"`
	UsageTotals
}

// UsageReport is the usage of an organisation or a namespace in [From, To).
type UsageReport struct {
	From   Time         `json:"from"`
	To     Time         `json:"to"`
	Totals UsageTotals  `json:"totals"`
	Groups []UsageGroup `json:"groups"` // ordered by key
	// AsOf is when the newest usage was applied, whatever hour it is of; absent where there
	// never was any. Hosts deliver within seconds, as long as they reach the control plane.
	AsOf *Time `json:"as_of,omitempty"`
}
