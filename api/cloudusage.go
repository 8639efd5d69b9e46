package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

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

// AsideUsage is usage that the control plane refused while its namespace was deleted. It is
// in no report: an operator decides whether somebody pays.
type AsideUsage struct {
	Seq         int64           `json:"seq"`
	At          Time            `json:"at"`
	Org         string          `json:"org"`       // its id
	Namespace   string          `json:"namespace"` // its id
	Stream      string          `json:"stream"`    // "shard/<n>"
	Incarnation string          `json:"incarnation"`
	From        uint64          `json:"from"` // the first row of the stream in the frame
	To          uint64          `json:"to"`   // the last
	Code        string          `json:"code"` // of the refusal
	Reason      string          `json:"reason"`
	Bytes       int64           `json:"bytes"`           // of the frame
	Frame       json.RawMessage `json:"frame,omitempty"` // as the host sent it; absent in a list
}
