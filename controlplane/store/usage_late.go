package store

import (
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// markLate records that a row of the journal is late, if its hour lies in a month before untilNs, the start of the first
// month of its organisation without an invoice. The next invoice then has the row.
func (tx *Tx) markLate(org tenancy.OrgID, untilNs int64, o *ApplyUsage, row int, hourNs int64, m billing.Meter) error {
	if hourNs >= untilNs {
		return nil
	}
	start, _ := billing.MonthBefore(hourNs + 1)
	return tx.put("INSERT INTO usage_late (namespace, stream, incarnation, to_seq, row_no, meter, org, month_ns, invoice) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
		o.Namespace, o.Stream, o.Incarnation, int64(o.To), row, int64(m), string(org), start)
}
