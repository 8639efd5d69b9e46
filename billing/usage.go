package billing

import (
	"errors"
	"fmt"
	"math"

	"github.com/corvo/corvo/billing/money"
)

// Quantities are the meters, each counted in whole units.
type Quantities struct {
	Reports             int64      `json:"reports,omitempty"`          // usage reports of workers
	RejectedReports     int64      `json:"rejected_reports,omitempty"` // set aside: no other meter contains their amounts
	InputTokens         int64      `json:"input_tokens,omitempty"`
	OutputTokens        int64      `json:"output_tokens,omitempty"`
	CacheCreationTokens int64      `json:"cache_creation_tokens,omitempty"`
	CacheReadTokens     int64      `json:"cache_read_tokens,omitempty"`
	Cost                money.Nano `json:"cost_usd,omitempty"` // as reported, or else computed from the prices

	Requests      int64 `json:"requests,omitempty"` // through the gateway
	RequestBytes  int64 `json:"request_bytes,omitempty"`
	ResponseBytes int64 `json:"response_bytes,omitempty"`
}

// MaxReportCost and MaxReportTokens limit one usage report of a worker, inclusively. A larger report is set
// aside and no sum contains it, because a program that reports more than a million dollars for one call has
// reported nano-dollars as dollars.
const (
	MaxReportCost   = 1_000_000 * money.Dollar
	MaxReportTokens = 1_000_000_000_000 // of all kinds together
)

// ErrOverflow means that a sum or a cost does not fit an int64. The rows of a frame hold int64s, so if a sum
// in a row overflows, the sender begins another frame. Therefore no receiver ever refuses a frame for its
// sums. Receivers add the rows up in Totals, which do not overflow.
var ErrOverflow = errors.New("the sum of the usage does not fit")

// fields returns pointers to the meters, in the order of their declaration.
func (q *Quantities) fields() [10]*int64 {
	return [...]*int64{
		&q.Reports, &q.RejectedReports, &q.InputTokens, &q.OutputTokens, &q.CacheCreationTokens, &q.CacheReadTokens, (*int64)(&q.Cost),
		&q.Requests, &q.RequestBytes, &q.ResponseBytes,
	}
}

// Add adds other. If the sum of any meter overflows, the error is ErrOverflow and q stays unchanged.
func (q *Quantities) Add(other Quantities) error {
	sum := *q
	more := other.fields()
	for i, f := range sum.fields() {
		n := *more[i]
		if n > 0 && *f > math.MaxInt64-n || n < 0 && *f < math.MinInt64-n {
			return ErrOverflow
		}
		*f += n
	}
	*q = sum
	return nil
}

// Totals are sums of Quantities, wide enough for any number of them.
type Totals struct {
	Reports, RejectedReports                                        money.Count
	InputTokens, OutputTokens, CacheCreationTokens, CacheReadTokens money.Count
	Cost                                                            money.Total
	Requests, RequestBytes, ResponseBytes                           money.Count
}

// Meters returns pointers to the totals, in the order of their declaration. The unit of the cost is the
// nano-dollar.
func (t *Totals) Meters() [10]*money.Count {
	return [...]*money.Count{
		&t.Reports, &t.RejectedReports, &t.InputTokens, &t.OutputTokens, &t.CacheCreationTokens, &t.CacheReadTokens, (*money.Count)(&t.Cost),
		&t.Requests, &t.RequestBytes, &t.ResponseBytes,
	}
}

func (t *Totals) Add(other Totals) {
	more := other.Meters()
	for i, f := range t.Meters() {
		*f = f.Add(*more[i])
	}
}

// Dimensions are the keys by which usage is summed.
type Dimensions struct {
	HourNs   int64  `json:"hour_ns"` // start of the hour in Unix nanoseconds
	Queue    string `json:"queue,omitempty"`
	Model    string `json:"model,omitempty"`
	Provider string `json:"provider,omitempty"`
}

// Row is the summed usage of one combination of Dimensions.
type Row struct {
	Dimensions
	Quantities
}

// Source is one sequence of usage without gaps: a shard of a namespace in one incarnation of its store,
// or one run of a gateway.
type Source struct {
	Namespace   string `json:"namespace"`   // the namespace that used it
	Stream      string `json:"stream"`      // "shard/<n>" or "gateway/<host id>"
	Incarnation string `json:"incarnation"` // hex; a new incarnation starts a new sequence
}

// MaxFrameRows is the largest number of rows in a frame.
const MaxFrameRows = 1000

// Frame is the usage with the sequence numbers [From, To] of a source, summed by Dimensions. A receiver
// applies a frame only if From is one more than the last To it applied, so that it counts a repeated
// frame once and notices a gap.
type Frame struct {
	Source
	From uint64 `json:"from"` // 1 <= From <= To
	To   uint64 `json:"to"`
	Rows []Row  `json:"rows"`
}

// Validate returns an error that describes what is wrong with the frame, or nil.
func (f Frame) Validate() error {
	switch {
	case f.Namespace == "" || f.Stream == "" || f.Incarnation == "":
		return errors.New("a frame needs a namespace, a stream and an incarnation")
	case f.From == 0 || f.To < f.From:
		return fmt.Errorf("a frame from %d to %d holds nothing", f.From, f.To)
	case len(f.Rows) == 0 || len(f.Rows) > MaxFrameRows:
		return fmt.Errorf("a frame of %d rows: it takes 1 to %d", len(f.Rows), MaxFrameRows)
	}
	for i, r := range f.Rows {
		for _, n := range r.fields() {
			if *n < 0 {
				return fmt.Errorf("row %d of the frame counts a negative quantity", i)
			}
		}
	}
	return nil
}
