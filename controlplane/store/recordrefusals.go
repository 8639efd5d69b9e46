package store

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/tenancy"
)

// RecordRefusals adds refused requests to the audit log. A server collects them first, so that a caller who
// floods it causes few commits and rows. The batch id makes a repeat harmless. An idempotency key in Meta
// would do so too, but each key takes a row for a day in a bounded table.

// Validate refuses an op that no state could accept.
func (o *RecordRefusals) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("batch", checkID(o.Batch))
	switch n := len(o.Refusals); {
	case n == 0:
		p.add("refusals", errors.New("is missing"))
	case n > MaxRefusals:
		p.add("refusals", fmt.Errorf("has %d entries: at most %d", n, MaxRefusals))
		return p.err()
	}
	for i, r := range o.Refusals {
		field := fmt.Sprintf("refusals[%d].", i)
		p.add(field+"org", checkText(r.GetOrg(), MaxID))
		p.add(field+"principal", checkText(r.GetPrincipal(), MaxPrincipal))
		p.add(field+"action", checkWord(r.GetAction(), MaxAction))
		p.add(field+"code", checkWord(r.GetCode(), MaxCode))
		p.add(field+"count", checkPositive(int64(r.GetCount())))
	}
	return p.err()
}

// Apply records the requests. It refuses nothing. A batch that was recorded before changes nothing.
func (o *RecordRefusals) Apply(tx *Tx) (*RecordRefusalsResult, error) {
	// The condition batch <> '' lets SQLite use the index, which holds only rows with a batch.
	known, err := number(tx, "SELECT count(*) FROM audit WHERE batch = ? AND batch <> ''", o.Batch)
	if err != nil || known > 0 {
		return &RecordRefusalsResult{}, err
	}
	for _, r := range o.Refusals {
		err := tx.addAudit(AuditRow{
			Org: tenancy.OrgID(r.Org), Principal: r.Principal, Action: r.Action, Refused: r.Code, Count: int64(r.Count), Batch: o.Batch,
		})
		if err != nil {
			return nil, err
		}
	}
	return &RecordRefusalsResult{}, nil
}
