package store

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
)

// CloseMonth closes a calendar month of the ledger: no transaction gets a time in it any more.

// Validate refuses an op that no state could accept.
func (o *CloseMonth) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	if _, end := billing.MonthBefore(o.EndNs); o.EndNs <= 0 || end != o.EndNs {
		p.add("month", fmt.Errorf("does not end at %d", o.EndNs))
	}
	return p.err()
}

// Apply adds the transaction that closes the month. It refuses with STATE_CONFLICT a month that is not over, is closed
// or does not follow the last closed one.
func (o *CloseMonth) Apply(tx *Tx) (*CloseMonthResult, error) {
	h, err := readLedgerHead(tx)
	if err != nil {
		return nil, err
	}
	if err := billing.CheckClosing(o.EndNs, h.closedNs, h.firstNs, tx.clockNs()); err != nil {
		return nil, api.Errorf(api.StateConflict, "%v", err)
	}
	startNs, _ := billing.MonthBefore(o.EndNs)
	month := time.Unix(0, startNs).UTC().Format("2006-01")
	err = tx.post(billing.Transaction{Source: "month/" + month, Currency: billing.USD, Principal: o.Meta.GetPrincipal(), ClosesNs: o.EndNs})
	if err != nil {
		return nil, err
	}
	return &CloseMonthResult{}, tx.audit(o.Meta, "", month)
}
