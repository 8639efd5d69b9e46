package api

import "github.com/corvo/corvo/billing/money"

// InvoiceSums are the month and the end of an invoice. Amounts are decimal numbers of US dollars with at most nine decimals.
type InvoiceSums struct {
	Period   string `json:"period"` // month in UTC, such as 2026-11
	Currency string `json:"currency"`
	Rounding string `json:"rounding"` // makes the subtotal whole cents
	Subtotal string `json:"subtotal"` // sum of the lines and the rounding
	Credits  string `json:"credits"`  // granted credits that the invoice uses, in whole cents
	// CarriedForward is a line of the next invoice, because it is below 0.50 USD; it may be negative.
	CarriedForward string `json:"carried_forward"`
	Total          string `json:"total"` // to pay: the subtotal without the credits and what is carried forward
}

// InvoicePreview is the invoice of the running month if no more usage arrived and the plan stayed.
type InvoicePreview struct {
	InvoiceSums
	Lines   []InvoiceLine `json:"lines"`
	LLMCost LLMCost       `json:"llm_cost"`
	// AsOf is the time at which the control plane applied the newest usage; absent if there is none.
	AsOf *Time `json:"as_of,omitempty"`
}

// InvoiceSummary is a final invoice without its lines.
type InvoiceSummary struct {
	Number string `json:"number"` // such as INV-000012, in one series without gaps
	Status string `json:"status"` // finalised = the total is to be paid, paid = nothing is
	InvoiceSums
	// Complete is false if the invoice was made after 48 hours without all sources of usage.
	Complete    bool   `json:"complete"`
	RatedSHA256 string `json:"rated_sha256"` // of the usage and the plans that the lines were rated from
	FinalisedAt Time   `json:"finalised_at"`
}

// Invoice is the final invoice of a month. It never changes, apart from its status.
type Invoice struct {
	InvoiceSummary
	Lines   []InvoiceLine `json:"lines"`
	LLMCost LLMCost       `json:"llm_cost"`
}

// InvoiceLine is one item of an invoice. Its amount is quantity x unit price / per, rounded half to even to nine decimals. A
// line of late usage has the difference to what earlier invoices charged for that month, which may be negative.
type InvoiceLine struct {
	Meter        string      `json:"meter"`          // name of a meter, or monthly_fee, discount, minimum or brought_forward
	Late         string      `json:"late,omitempty"` // month of late usage, such as 2026-10; absent = the invoice's
	Namespace    string      `json:"namespace"`      // its id; "" = the line is not usage
	Tier         int         `json:"tier"`           // of the price; 0 = included
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
