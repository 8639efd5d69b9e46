package api

import "github.com/corvo/corvo/billing/money"

// PriceRequest declares the price of the tokens of a model, in dollars per million tokens, 0 to a billion.
type PriceRequest struct {
	Provider string `json:"provider,omitempty"` // absent = any provider
	Model    string `json:"model"`              // required; a trailing * matches every ending
	// OverInputTokens makes the price apply only to reports with more input tokens than this, cached tokens
	// included. Default 0: the price applies to all reports.
	OverInputTokens         int64       `json:"over_input_tokens,omitempty"`
	InputUSDPerMillion      *money.Nano `json:"input_usd_per_million"`                    // required
	OutputUSDPerMillion     *money.Nano `json:"output_usd_per_million"`                   // required
	CacheCreationUSDPerMill *money.Nano `json:"cache_creation_usd_per_million,omitempty"` // default: the price of input
	CacheReadUSDPerMillion  *money.Nano `json:"cache_read_usd_per_million,omitempty"`     // default: the price of input
}

// Sources of a price.
const (
	PriceShipped = "default"   // part of the server; cannot be changed
	PriceOwn     = "namespace" // declared in the namespace; takes precedence
)

// Price is the price of the tokens of a model.
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

	// Version is set by package client from the ETag of the response; 0 in a list.
	Version int64 `json:"-"`
}
