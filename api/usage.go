package api

import "github.com/corvo/corvo/billing/money"

// Usage is what a worker reports for its model calls, and in answers the sum
// over a job's attempts. Cost is exact to nine decimals.
type Usage struct {
	InputTokens         int64      `json:"input_tokens"`
	OutputTokens        int64      `json:"output_tokens"`
	CacheCreationTokens int64      `json:"cache_creation_tokens"`
	CacheReadTokens     int64      `json:"cache_read_tokens"`
	Model               string     `json:"model"`
	Provider            string     `json:"provider"`
	CostUSD             money.Nano `json:"cost_usd"`
}
