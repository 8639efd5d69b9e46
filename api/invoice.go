package api

import "github.com/corvo/corvo/billing/money"

// InvoicePreview is the bill of the running month if no more usage arrived and the plan stayed. Amounts are decimal numbers
// of US dollars with at most nine decimals.
type InvoicePreview struct {
	Period   string        `json:"period"` // month in UTC, such as 2026-11
	Currency string        `json:"currency"`
	Lines    []InvoiceLine `json:"lines"`
	Rounding string        `json:"rounding"` // makes the subtotal whole cents
	Subtotal string        `json:"subtotal"` // sum of the lines and the rounding
	Credits  string        `json:"credits"`  // granted credits that the bill would use, in whole cents
	Total    string        `json:"total"`    // subtotal without the credits
	LLMCost  LLMCost       `json:"llm_cost"`
	// AsOf is the time at which the control plane applied the newest usage; absent if there is none.
	AsOf *Time `json:"as_of,omitempty"`
}

// InvoiceLine is one item of a bill. Its amount is quantity x unit price / per, rounded half to even to nine decimals.
type InvoiceLine struct {
	Meter        string      `json:"meter"`     // name of a meter, or monthly_fee, discount or minimum
	Namespace    string      `json:"namespace"` // its id; "" = the line is not usage
	Tier         int         `json:"tier"`      // of the price; 0 = included
	PriceVersion string      `json:"price_version"`
	Quantity     money.Count `json:"quantity"`
	Per          int64       `json:"per"`
	UnitPrice    string      `json:"unit_price"`
	Amount       string      `json:"amount"`
	RowsURL      string      `json:"rows_url"` // usage of the line's namespace in the month, by day; "" = the line is not usage
}

// LLMCost is the cost of model calls, as workers reported it or else computed from the model prices. It is not part of the
// total, because the organisation pays the providers of the models.
type LLMCost struct {
	Total   string      `json:"total"`
	ByModel []ModelCost `json:"by_model"`
}

// ModelCost is the cost of the calls of one model.
type ModelCost struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Cost     string `json:"cost"`
}
