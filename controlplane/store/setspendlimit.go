package store

import (
	"fmt"

	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// SetSpendLimit sets or removes the spend limit of an organisation.

// Validate refuses an op that no state could accept.
func (o *SetSpendLimit) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("org", checkID(o.Org))
	if o.LimitNanoUsd != nil {
		p.add("limit_usd", checkSpend(o.GetLimitNanoUsd()))
	}
	return p.err()
}

// checkSpend checks a limit or a raise.
func checkSpend(amount int64) error {
	if amount <= 0 || amount > int64(MaxSpendLimit) {
		return fmt.Errorf("is %s: it is above 0 and at most %s", money.Nano(amount), MaxSpendLimit)
	}
	return nil
}

// Apply sets the limit. A hold stays until RecordSpend compares the spend with the new limit, but ends with the limit if
// Apply removes it. Raises stay, and count again if another limit is set before they expire. Apply refuses with NOT_FOUND
// an unknown organisation. The present limit again changes nothing.
func (o *SetSpendLimit) Apply(tx *Tx) (*SetSpendLimitResult, error) {
	org := tenancy.OrgID(o.Org)
	if _, err := tx.org(org); err != nil {
		return nil, err
	}
	present, found, err := spendLimit(tx, o.Org, tx.clockNs())
	if err != nil {
		return nil, err
	}
	result := &SetSpendLimitResult{}
	switch {
	case o.LimitNanoUsd == nil && !found, o.LimitNanoUsd != nil && found && int64(present.Limit) == o.GetLimitNanoUsd():
		return result, nil
	case o.LimitNanoUsd == nil:
		if err := tx.put("DELETE FROM spend_limits WHERE org = ?", o.Org); err != nil {
			return nil, err
		}
		if present.HeldNs != 0 {
			err = tx.touchPlacements(org)
		}
	default:
		err = tx.put("INSERT OR REPLACE INTO spend_limits (org, amount, principal, at_ns, held_ns) VALUES (?, ?, ?, ?, ?)",
			o.Org, o.GetLimitNanoUsd(), o.GetMeta().GetPrincipal(), tx.clockNs(), present.HeldNs)
	}
	if err != nil {
		return nil, err
	}
	tx.wake = true // the reconciler compares the spend with the new limit
	target := o.Org + "/none"
	if o.LimitNanoUsd != nil {
		target = fmt.Sprintf("%s/%s", o.Org, money.Nano(o.GetLimitNanoUsd()))
	}
	return result, tx.audit(o.Meta, org, target)
}
