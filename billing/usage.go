package billing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/corvo/corvo/billing/money"
)

// Quantities are a quantity of each meter, by its number. Quantities are whole units.
type Quantities [metersEnd]int64

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

// Add adds other. If the sum of any meter overflows, the error is ErrOverflow and q stays unchanged.
func (q *Quantities) Add(other Quantities) error {
	sum := *q
	for m, n := range other {
		if n > 0 && sum[m] > math.MaxInt64-n || n < 0 && sum[m] < math.MinInt64-n {
			return ErrOverflow
		}
		sum[m] += n
	}
	*q = sum
	return nil
}

// Meters returns the number of meters with a quantity.
func (q Quantities) Meters() (n int) {
	for _, quantity := range q {
		if quantity != 0 {
			n++
		}
	}
	return n
}

// Totals are sums of Quantities, wide enough for any number of them. The unit of the cost is the nano-dollar.
type Totals [metersEnd]money.Count

// Add adds other.
func (t *Totals) Add(other Totals) {
	for m, n := range other {
		t[m] = t[m].Add(n)
	}
}

// Dimensions are the keys by which usage is summed.
type Dimensions struct {
	HourNs   int64  `json:"hour_ns"` // start of the hour in Unix nanoseconds
	Queue    string `json:"queue,omitempty"`
	Model    string `json:"model,omitempty"`
	Provider string `json:"provider,omitempty"`
}

// Row is the sum of one meter for one combination of Dimensions.
type Row struct {
	Dimensions
	Meter    Meter `json:"meter"`
	Quantity int64 `json:"quantity"`
}

// Quantities returns the row's quantity under its meter, which must be known.
func (r Row) Quantities() (q Quantities) {
	q[r.Meter] = r.Quantity
	return q
}

// AppendRows appends a row for each meter with a quantity, in the order of the meters.
func (d Dimensions) AppendRows(rows []Row, of Quantities) []Row {
	for m, n := range of {
		if n != 0 {
			rows = append(rows, Row{d, Meter(m), n})
		}
	}
	return rows
}

// Source is one sequence of usage without gaps: a shard of a namespace in one incarnation of its store,
// or one run of a gateway.
type Source struct {
	Namespace   string `json:"namespace"`   // the namespace that used it
	Stream      string `json:"stream"`      // "shard/<n>" or "gateway/<host id>"
	Incarnation string `json:"incarnation"` // hex; a new incarnation starts a new sequence
}

// Part returns the part of the cloud that counts the source's usage.
func (s Source) Part() Part {
	part, _, _ := strings.Cut(s.Stream, "/")
	return Part(part)
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
	Rows []Row  `json:"usage"`
	Hash string `json:"rows_sha256"` // HashRows of Rows
}

// HashRows returns the SHA-256 of rows in hexadecimal. It covers the rows in their order, of each row the hour, the meter
// and the quantity in eight bytes each, big-endian, and then queue, model and provider, each after its length in four
// bytes. This format is permanent.
func HashRows(rows []Row) string {
	h := sha256.New()
	var b []byte
	for _, r := range rows {
		b = b[:0]
		for _, n := range []int64{r.HourNs, int64(r.Meter), r.Quantity} {
			b = binary.BigEndian.AppendUint64(b, uint64(n))
		}
		for _, text := range []string{r.Queue, r.Model, r.Provider} {
			b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
			b = append(b, text...)
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
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
	by := f.Part()
	for i, r := range f.Rows {
		switch {
		case !r.Meter.Known():
			return fmt.Errorf("row %d of the frame has meter %d, which this version does not know: upgrade the control plane before hosts and gateways", i, r.Meter)
		case Meters[r.Meter].By != by:
			return fmt.Errorf("row %d of the frame has the meter %s, which only a %s counts, and stream %q is not of one", i, r.Meter, Meters[r.Meter].By, f.Stream)
		case r.Quantity < 0:
			return fmt.Errorf("row %d of the frame counts a negative quantity", i)
		}
	}
	if hash := HashRows(f.Rows); f.Hash != hash {
		return fmt.Errorf("the rows of the frame have the SHA-256 %s, and rows_sha256 is %q: they were changed on the way, or the sender is of an earlier build", hash, f.Hash)
	}
	return nil
}
