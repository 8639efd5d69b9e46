package store

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// ApplyUsage adds a frame [from, to] of a source if from follows the last number that was applied or set
// aside. It adds the rows unchanged to the journal, with the hash that came with them, and to the sums that answer
// queries. A row of a month that has an invoice is late. ApplyUsage leaves an audit row only for rows that it sets aside,
// because no person decided the others.

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
	if len(o.RowsSha256) > 0 {
		p.add("rows_sha256", checkSize(o.RowsSha256, sha256.Size))
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
	if r.GetMeter() != 0 && !billing.Meter(r.GetMeter()).Known() {
		p.add(field("meter"), fmt.Errorf("is %d, which this version does not know", r.GetMeter()))
	}
	for _, m := range r.metered() {
		p.add(field("quantity"), checkNotNegative(m.quantity))
	}
}

// metered is the quantity of one meter in a row of a frame.
type metered struct {
	meter    billing.Meter
	quantity int64
}

// metered returns the quantities of a row: one, or several of a row of an earlier build.
func (r *UsageRow) metered() []metered {
	if r.GetMeter() != 0 {
		return []metered{{billing.Meter(r.GetMeter()), r.GetQuantity()}}
	}
	return slices.DeleteFunc([]metered{
		{billing.Reports, r.GetReports()}, {billing.RejectedReports, r.GetRejectedReports()},
		{billing.InputTokens, r.GetInputTokens()}, {billing.OutputTokens, r.GetOutputTokens()},
		{billing.CacheCreationTokens, r.GetCacheCreationTokens()}, {billing.CacheReadTokens, r.GetCacheReadTokens()},
		{billing.Cost, r.GetCostNanoUsd()},
		{billing.Requests, r.GetRequests()}, {billing.RequestBytes, r.GetRequestBytes()}, {billing.ResponseBytes, r.GetResponseBytes()},
	}, func(m metered) bool { return m.quantity == 0 })
}

// Apply adds the frame. It refuses with NOT_FOUND an unknown namespace, but takes usage of a deleted one. It
// refuses with STATE_CONFLICT a frame that leaves a gap after the usage of its source or overlaps it. It sets
// rows ahead of the entry's clock aside, and refuses the frame with OVERLOADED if there is no room for them. A frame
// that was applied or set aside before changes nothing.
func (o *ApplyUsage) Apply(tx *Tx) (*ApplyUsageResult, error) {
	ns, err := tx.namespace(o.Namespace)
	if err != nil {
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
	ahead, err := tx.setAheadAside(o, ns)
	if err != nil {
		return nil, err
	}
	until, err := invoicedUntil(tx, ns.Org)
	if err != nil {
		return nil, err
	}
	for i, r := range o.Rows {
		if o.isAhead(r, tx.clockNs()) {
			continue
		}
		if err := tx.addUsage(o, i, r, ns.Org, until); err != nil {
			return nil, err
		}
	}
	if len(o.RowsSha256) > 0 {
		err := tx.put("INSERT INTO usage_frames (namespace, stream, incarnation, to_seq, from_seq, rows, rows_sha256) VALUES (?, ?, ?, ?, ?, ?, ?)",
			o.Namespace, o.Stream, o.Incarnation, int64(o.To), int64(o.From), len(o.Rows), o.RowsSha256)
		if err != nil {
			return nil, err
		}
	}
	return &ApplyUsageResult{Last: o.To, Ahead: uint32(ahead)}, tx.putSource(o.Namespace, o.Stream, o.Incarnation, o.To)
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

// addUsage adds the i-th row of a frame to the journal and to the sums of its hour. The row is late if its hour lies before
// untilNs, until when its organisation is invoiced.
func (tx *Tx) addUsage(o *ApplyUsage, i int, r *UsageRow, org tenancy.OrgID, untilNs int64) error {
	for _, m := range r.metered() {
		err := tx.put("INSERT INTO usage_journal (namespace, stream, incarnation, to_seq, row_no, meter, from_seq, applied_ns, hour_ns, queue, model, provider, quantity)"+
			" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			o.Namespace, o.Stream, o.Incarnation, int64(o.To), i, int64(m.meter), int64(o.From), tx.clockNs(), r.GetHourNs(), r.GetQueue(), r.GetModel(), r.GetProvider(), m.quantity)
		if err != nil {
			return err
		}
		if err := tx.sumUsage(o.Namespace, r, m); err != nil {
			return err
		}
		if err := tx.markLate(org, untilNs, o, i, r.GetHourNs(), m.meter); err != nil {
			return err
		}
	}
	return nil
}

// hourPart is the newest part of an hour's sum.
type hourPart struct{ part, sum int64 }

// sumUsage adds a quantity, which is negative only in a correction, to the sum of its hour. When the sum would exceed an
// integer of SQL, sumUsage begins another part of the sum, because SQL itself would continue with a float.
func (tx *Tx) sumUsage(namespace string, r *UsageRow, m metered) error {
	where := []any{namespace, r.GetHourNs(), r.GetQueue(), r.GetModel(), r.GetProvider(), int64(m.meter)}
	scan := func(rows *sql.Rows) (p hourPart, err error) { return p, rows.Scan(&p.part, &p.sum) }
	p, _, err := first(tx, scan, "SELECT part, quantity FROM usage_hourly"+
		" WHERE namespace = ? AND hour_ns = ? AND queue = ? AND model = ? AND provider = ? AND meter = ? ORDER BY part DESC LIMIT 1", where...)
	if err != nil {
		return err
	}
	if m.quantity > 0 && p.sum > math.MaxInt64-m.quantity || m.quantity < 0 && p.sum < math.MinInt64-m.quantity {
		p = hourPart{part: p.part + 1}
	}
	return tx.put("INSERT OR REPLACE INTO usage_hourly (namespace, hour_ns, queue, model, provider, meter, part, quantity) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		append(where, p.part, p.sum+m.quantity)...)
}
