package billing

import (
	"errors"
	"fmt"
	"math"

	"github.com/corvo/corvo/billing/money"
)

// Quantities are the meters, all counted in whole units.
type Quantities struct {
	Reports             int64      `json:"reports,omitempty"` // usage reports of workers
	InputTokens         int64      `json:"input_tokens,omitempty"`
	OutputTokens        int64      `json:"output_tokens,omitempty"`
	CacheCreationTokens int64      `json:"cache_creation_tokens,omitempty"`
	CacheReadTokens     int64      `json:"cache_read_tokens,omitempty"`
	Cost                money.Nano `json:"cost_usd,omitempty"` // what counts: as reported, or else as computed

	Requests      int64 `json:"requests,omitempty"` // through the gateway
	RequestBytes  int64 `json:"request_bytes,omitempty"`
	ResponseBytes int64 `json:"response_bytes,omitempty"`
}

// ErrOverflow is a sum beyond an int64.
var ErrOverflow = errors.New("the sum of the usage does not fit")

// fields are the meters in a fixed order.
func (q *Quantities) fields() [9]*int64 {
	return [...]*int64{
		&q.Reports, &q.InputTokens, &q.OutputTokens, &q.CacheCreationTokens, &q.CacheReadTokens, (*int64)(&q.Cost),
		&q.Requests, &q.RequestBytes, &q.ResponseBytes,
	}
}

// Add adds other, wholly or not at all.
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

// Dimensions say what quantities were used for.
type Dimensions struct {
	HourNs   int64  `json:"hour_ns"` // start of the hour in Unix nanoseconds
	Queue    string `json:"queue,omitempty"`
	Model    string `json:"model,omitempty"`
	Provider string `json:"provider,omitempty"`
}

// Row is what was used for the same.
type Row struct {
	Dimensions
	Quantities
}

// Source is one gapless sequence of usage: a shard of a namespace in one
// incarnation of its store, or one run of a gateway.
type Source struct {
	Namespace   string `json:"namespace"`   // the namespace that used it
	Stream      string `json:"stream"`      // "shard/<n>" or "gateway/<host id>"
	Incarnation string `json:"incarnation"` // hex; a new one starts a new sequence
}

// MaxFrameRows bounds a frame.
const MaxFrameRows = 1000

// Frame is the usage with the sequence numbers [From, To] of a source, summed by
// dimensions. A receiver applies it only when From is one more than the To it
// applied last: so a repeat changes nothing and a gap is noticed.
type Frame struct {
	Source
	From uint64 `json:"from"` // 1 <= From <= To
	To   uint64 `json:"to"`
	Rows []Row  `json:"rows"`
}

// Validate says what is wrong with a frame; nil for nothing.
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
