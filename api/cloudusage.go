package api

import "github.com/corvo/corvo/billing/money"

// UsageTotals is what was used. Costs are exact to nine decimals.
type UsageTotals struct {
	Reports             int64      `json:"reports"` // usage reports of workers
	InputTokens         int64      `json:"input_tokens"`
	OutputTokens        int64      `json:"output_tokens"`
	CacheCreationTokens int64      `json:"cache_creation_tokens"`
	CacheReadTokens     int64      `json:"cache_read_tokens"`
	CostUSD             money.Nano `json:"cost_usd"` // as workers reported it, or else as computed

	Requests      int64 `json:"requests"` // through the gateway
	RequestBytes  int64 `json:"request_bytes"`
	ResponseBytes int64 `json:"response_bytes"`
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
}
