package store

import (
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// ApplyUsage adds a frame [from, to] of a source if from follows the last number that was applied or set
// aside. It adds the rows unchanged to the journal, and to the sums that answer queries. It leaves no audit
// row, because no person decided it.

// Validate refuses an op that no state could accept.
func (o *ApplyUsage) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.checkFrame(billing.Source{Namespace: o.Namespace, Stream: o.Stream, Incarnation: o.Incarnation}, o.From, o.To)
	if n := len(o.Rows); n == 0 || n > billing.MaxFrameRows {
		p.add("rows", fmt.Errorf("has %d entries: it takes 1 to %d", n, billing.MaxFrameRows))
		return p.err()
	}
	for i, r := range o.Rows {
		r.check(&p, i)
	}
	return p.err()
}

// checkFrame adds the faults of a frame's source and of its numbers.
func (p *problems) checkFrame(source billing.Source, from, to uint64) {
	p.add("namespace", checkID(source.Namespace))
	p.add("stream", checkWord(source.Stream, MaxStream))
	p.add("incarnation", checkWord(source.Incarnation, MaxStream))
	if from == 0 || to < from || to > math.MaxInt64 {
		p.add("from", fmt.Errorf("and to are %d and %d: they hold nothing", from, to))
	}
}

// check adds the faults of the i-th row of a frame.
func (r *UsageRow) check(p *problems, i int) {
	field := func(name string) string { return fmt.Sprintf("rows[%d].%s", i, name) }
	if r.GetHourNs() < 0 || r.GetHourNs()%int64(time.Hour) != 0 {
		p.add(field("hour_ns"), fmt.Errorf("is %d, which begins no hour", r.GetHourNs()))
	}
	p.add(field("queue"), checkUTF8(r.GetQueue(), MaxUsageWord))
	p.add(field("model"), checkUTF8(r.GetModel(), MaxUsageWord))
	p.add(field("provider"), checkUTF8(r.GetProvider(), MaxUsageWord))
	for at, n := range meters(r.quantities()) {
		p.add(field(meterNames[at]), checkNotNegative(n.(int64)))
	}
}

func (r *UsageRow) quantities() billing.Quantities {
	return billing.Quantities{
		Reports: r.GetReports(), RejectedReports: r.GetRejectedReports(), InputTokens: r.GetInputTokens(), OutputTokens: r.GetOutputTokens(),
		CacheCreationTokens: r.GetCacheCreationTokens(), CacheReadTokens: r.GetCacheReadTokens(), Cost: money.Nano(r.GetCostNanoUsd()),
		Requests: r.GetRequests(), RequestBytes: r.GetRequestBytes(), ResponseBytes: r.GetResponseBytes(),
	}
}

// Apply adds the frame. It refuses with NOT_FOUND an unknown namespace, but takes usage of a deleted one. It
// refuses with STATE_CONFLICT a frame that leaves a gap after the usage of its source or overlaps it. A frame
// that was applied or set aside before changes nothing.
func (o *ApplyUsage) Apply(tx *Tx) (*ApplyUsageResult, error) {
	if _, err := tx.namespace(o.Namespace); err != nil {
		return nil, err
	}
	last, err := lastUsage(tx, billing.Source{Namespace: o.Namespace, Stream: o.Stream, Incarnation: o.Incarnation})
	if err != nil {
		return nil, err
	}
	switch {
	case o.To <= last:
		return &ApplyUsageResult{Last: last}, nil
	case o.From != last+1:
		return nil, usageGap(last, o.From, o.To)
	}
	for i, r := range o.Rows {
		if err := tx.addUsage(o, i, r); err != nil {
			return nil, err
		}
	}
	return &ApplyUsageResult{Last: o.To}, tx.putSource(o.Namespace, o.Stream, o.Incarnation, o.To)
}

// usageGap refuses a frame [from, to] that does not follow the last applied number of its source.
func usageGap(last, from, to uint64) error {
	refusal := api.Errorf(api.StateConflict, "the usage is applied up to %d, the frame is [%d, %d]: send from %d on", last, from, to, last+1)
	refusal.Details = map[string]any{"last": last}
	return refusal
}

// putSource records the last number of a source's usage that is applied or set aside.
func (tx *Tx) putSource(namespace, stream, incarnation string, last uint64) error {
	return tx.put("INSERT OR REPLACE INTO usage_sources (namespace, stream, incarnation, last_seq, applied_ns) VALUES (?, ?, ?, ?, ?)",
		namespace, stream, incarnation, int64(last), tx.clockNs())
}

// addUsage adds the i-th row of a frame to the journal and to the sum of its hour.
func (tx *Tx) addUsage(o *ApplyUsage, i int, r *UsageRow) error {
	q := r.quantities()
	args := []any{o.Namespace, o.Stream, o.Incarnation, int64(o.To), i, int64(o.From), tx.clockNs(), r.GetHourNs(), r.GetQueue(), r.GetModel(), r.GetProvider()}
	err := tx.put("INSERT INTO usage_journal (namespace, stream, incarnation, to_seq, row_no, from_seq, applied_ns, hour_ns, queue, model, provider, "+meterColumns+
		") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", append(args, meters(q)...)...)
	if err != nil {
		return err
	}
	return tx.sumUsage(o.Namespace, r, q)
}

// hourPart is the newest part of an hour's sum.
type hourPart struct {
	part int64
	sum  billing.Quantities
}

// sumUsage adds a row to the sum of its hour. When a sum would exceed an integer of SQL, sumUsage begins
// another part of the sum, because SQL itself would continue with a float.
func (tx *Tx) sumUsage(namespace string, r *UsageRow, q billing.Quantities) error {
	where := []any{namespace, r.GetHourNs(), r.GetQueue(), r.GetModel(), r.GetProvider()}
	scan := func(rows *sql.Rows) (p hourPart, err error) {
		err = rows.Scan(append([]any{&p.part}, places(&p.sum)...)...)
		return p, err
	}
	p, _, err := first(tx, scan, "SELECT part, "+meterColumns+
		" FROM usage_hourly WHERE namespace = ? AND hour_ns = ? AND queue = ? AND model = ? AND provider = ? ORDER BY part DESC LIMIT 1", where...)
	if err != nil {
		return err
	}
	if err := p.sum.Add(q); err != nil {
		p = hourPart{p.part + 1, q}
	}
	return tx.put("INSERT OR REPLACE INTO usage_hourly (namespace, hour_ns, queue, model, provider, part, "+meterColumns+
		") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", append(append(where, p.part), meters(p.sum)...)...)
}
