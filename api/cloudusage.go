package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// UsageTotals are sums of usage. Costs are exact to nine decimals.
type UsageTotals struct {
	Reports             money.Count `json:"reports"`          // usage reports of workers
	RejectedReports     money.Count `json:"rejected_reports"` // set aside, in no other number
	InputTokens         money.Count `json:"input_tokens"`
	OutputTokens        money.Count `json:"output_tokens"`
	CacheCreationTokens money.Count `json:"cache_creation_tokens"`
	CacheReadTokens     money.Count `json:"cache_read_tokens"`
	CostUSD             money.Total `json:"cost_usd"` // as workers reported it, or else computed from the price book

	Requests      money.Count `json:"requests"` // through the gateway
	RequestBytes  money.Count `json:"request_bytes"`
	ResponseBytes money.Count `json:"response_bytes"`

	JobsEnqueued      money.Count `json:"jobs_enqueued"`       // jobs created; a move between queues creates none
	JobsCompleted     money.Count `json:"jobs_completed"`      // each time a job completed
	ActiveSeconds     money.Count `json:"active_seconds"`      // leases of workers
	StoredByteSeconds money.Count `json:"stored_byte_seconds"` // size of the leaders' stores over the open time
	OpenSeconds       money.Count `json:"open_seconds"`        // of every shard with a leader
}

// UsageGroup is the usage of one group. Key is the group's namespace, queue, model, provider or day.
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
	// Corrected sums the corrections of operators that the totals and groups contain; negative = more was taken away. The rest
	// of the totals is usage that hosts and gateways counted, however late it came.
	Corrected UsageTotals `json:"corrected"`
	// AsOf is the time at which the control plane applied the newest usage or correction; absent if there is none. Hosts
	// deliver usage within seconds while they reach the control plane.
	AsOf *Time `json:"as_of,omitempty"`
	// CompleteUntil is the least claim of all sources: an hour that ends by then gets no more usage. It is usually a few
	// minutes ago.
	CompleteUntil Time `json:"complete_until"`
	// LateSources lists at most 100 sources that are more than 15 minutes behind, the furthest behind first. Their usage
	// may still come.
	LateSources []UsageSource `json:"late_sources"`
}

// UsageSource is a part of the cloud that counts usage, and the time until which its usage is complete.
type UsageSource struct {
	Namespace     string `json:"namespace,omitempty"` // its id; absent for a gateway, which counts for all namespaces
	Stream        string `json:"stream"`              // "shard/<n>" or "gateway/<id>"
	CompleteUntil Time   `json:"complete_until"`
}

// AsideUsage is usage that the control plane refused while its namespace was being deleted, or whose hour is ahead of the
// control plane's clock. No report contains it; an operator decides whether to charge for it.
type AsideUsage struct {
	Seq         int64           `json:"seq"` // number of its row in the audit log; unique
	At          Time            `json:"at"`
	Org         string          `json:"org"`       // its id
	Namespace   string          `json:"namespace"` // its id
	Stream      string          `json:"stream"`    // "shard/<n>" or "gateway/<id>"
	Incarnation string          `json:"incarnation"`
	From        uint64          `json:"from"` // first sequence number of the frame
	To          uint64          `json:"to"`   // last sequence number
	Code        string          `json:"code"` // of the refusal
	Reason      string          `json:"reason"`
	Bytes       int64           `json:"bytes"`           // of the frame
	Frame       json.RawMessage `json:"frame,omitempty"` // as the host sent it, or the rows ahead; absent in a list
}
