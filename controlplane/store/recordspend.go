package store

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// RecordSpend compares the bill of an organisation's running month with its spend limit.

// Validate refuses an op that no state could accept.
func (o *RecordSpend) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("org", checkID(o.Org))
	p.add("month_ns", checkPositive(o.MonthNs))
	return p.err()
}

// Apply records an alert for each share of the limit that the spend has reached for the first time in the month. It holds
// the starts of jobs at HoldPercent, and lets them go on below. It decides by the limit and the raises at the time of the
// entry, so that a proposal by an older limit does no harm. It refuses with STATE_CONFLICT an organisation without a
// limit, and a month that is not the running one.
func (o *RecordSpend) Apply(tx *Tx) (*RecordSpendResult, error) {
	org, result, spend := tenancy.OrgID(o.Org), &RecordSpendResult{}, money.Nano(o.SpendNanoUsd)
	limit, found, err := spendLimit(tx, o.Org, tx.clockNs())
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, noSpendLimit(o.Org)
	}
	if o.MonthNs != monthOf(tx.clockNs()) {
		return nil, api.Errorf(api.StateConflict, "%s is not the running month", time.Unix(0, o.MonthNs).UTC().Format(time.RFC3339))
	}
	target := o.Org + "/" + time.Unix(0, o.MonthNs).UTC().Format("2006-01") + "/"
	percent := billing.SpendPercent(spend, limit.Effective())
	for _, p := range billing.AlertPercents() {
		if p <= limit.Alerted || p > percent {
			continue
		}
		err := tx.put("INSERT INTO spend_alerts (org, month_ns, percent, spend, amount, at_ns) VALUES (?, ?, ?, ?, ?, ?)",
			o.Org, o.MonthNs, p, o.SpendNanoUsd, int64(limit.Effective()), tx.clockNs())
		if err == nil {
			err = tx.audit(o.Meta, org, fmt.Sprintf("%s%d%%", target, p))
		}
		if err != nil {
			return nil, err
		}
	}
	held := percent >= billing.HoldPercent
	if held == (limit.HeldNs != 0) {
		return result, nil
	}
	heldNs, word := int64(0), "released"
	if held {
		heldNs, word = tx.clockNs(), "held"
	}
	if err := tx.put("UPDATE spend_limits SET held_ns = ? WHERE org = ?", heldNs, o.Org); err != nil {
		return nil, err
	}
	if err := tx.touchPlacements(org); err != nil {
		return nil, err
	}
	return result, tx.audit(o.Meta, org, target+word)
}
