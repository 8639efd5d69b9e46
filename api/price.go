package api

import "github.com/corvo/corvo/billing/money"

// PriceRequest says what a model's tokens cost, in dollars for a million of them.
type PriceRequest struct {
	Provider string `json:"provider,omitempty"` // absent: whoever's it is
	Model    string `json:"model"`              // a trailing * stands for any ending
	// OverInputTokens makes it the price of reports with more input than that, cached or
	// not. Default 0: of all.
	OverInputTokens         int64       `json:"over_input_tokens,omitempty"`
	InputUSDPerMillion      *money.Nano `json:"input_usd_per_million"`
	OutputUSDPerMillion     *money.Nano `json:"output_usd_per_million"`
	CacheCreationUSDPerMill *money.Nano `json:"cache_creation_usd_per_million,omitempty"` // default that of input
	CacheReadUSDPerMillion  *money.Nano `json:"cache_read_usd_per_million,omitempty"`     // default that of input
}

// Sources of a price.
const (
	PriceShipped = "default"   // it came with the server, and cannot be changed
	PriceOwn     = "namespace" // somebody declared it; it goes before those that came
)

// Price is what a model's tokens cost.
type Price struct {
	ID                      string     `json:"id"`
	Provider                string     `json:"provider"`
	Model                   string     `json:"model"`
	OverInputTokens         int64      `json:"over_input_tokens"`
	InputUSDPerMillion      money.Nano `json:"input_usd_per_million"`
	OutputUSDPerMillion     money.Nano `json:"output_usd_per_million"`
	CacheCreationUSDPerMill money.Nano `json:"cache_creation_usd_per_million"`
	CacheReadUSDPerMillion  money.Nano `json:"cache_read_usd_per_million"`
	Source                  string     `json:"source"`
	CreatedAt               Time       `json:"created_at"`

	// Version is for the client, which reads it off the answer's ETag; 0 in a list.
	Version int64 `json:"-"`
}
