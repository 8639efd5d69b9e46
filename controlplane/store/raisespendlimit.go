package store

import (
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// RaiseSpendLimit adds to the spend limit of an organisation for a time.

// Validate refuses an op that no state could accept.
func (o *RaiseSpendLimit) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("org", checkID(o.Org))
	p.add("amount_usd", checkSpend(o.AmountNanoUsd))
	p.add("reason", checkWord(o.Reason, MaxReason))
	p.add("expires_at", checkPositive(o.ExpiresNs))
	return p.err()
}

// Apply records the raise. A repeat with the same id and content changes nothing. Apply refuses with STATE_CONFLICT an
// organisation without a limit, with CONFLICT an id that has other content and a raise above MaxRaises, with
// VALIDATION_ERROR an expiry that is over or later than MaxRaisePeriod, and with FORBIDDEN a raise by the organisation
// itself above OwnRaisePercent.
func (o *RaiseSpendLimit) Apply(tx *Tx) (*RaiseSpendLimitResult, error) {
	org, result := tenancy.OrgID(o.Org), &RaiseSpendLimitResult{Id: o.Id}
	raise := SpendRaise{
		ID: o.Id, Org: org, Amount: money.Nano(o.AmountNanoUsd), Reason: o.Reason, Approver: o.GetMeta().GetPrincipal(), Operator: o.Operator,
		CreatedNs: tx.clockNs(), ExpiresNs: o.ExpiresNs,
	}
	if repeated, err := tx.repeatsRaise(raise); repeated || err != nil {
		return result, err
	}
	limit, found, err := spendLimit(tx, o.Org, tx.clockNs())
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, noSpendLimit(o.Org)
	}
	if o.ExpiresNs <= tx.clockNs() || o.ExpiresNs > tx.clockNs()+int64(MaxRaisePeriod) {
		return nil, api.Errorf(api.ValidationError, "expires_at must be later than now, by at most %d days", MaxRaisePeriod/(24*time.Hour))
	}
	made, err := number(tx, "SELECT COUNT(*) FROM spend_raises WHERE org = ? AND created_ns >= ?", o.Org, monthOf(tx.clockNs()))
	if err != nil {
		return nil, err
	}
	if made >= tx.limits.raises {
		return nil, api.Errorf(api.Conflict, "the organisation has raised its spend limit %d times this month, the maximum: set a higher limit", tx.limits.raises)
	}
	// The product fits: see MaxSpendLimit.
	if most := limit.Limit * money.Nano(tx.limits.ownRaisePercent) / 100; !o.Operator && limit.Own+raise.Amount > most {
		return nil, api.Errorf(api.Forbidden, "an organisation may raise its spend limit by %s at a time, and has raised it by %s: ask an operator of the cloud for more, or set a higher limit", most, limit.Own)
	}
	err = tx.put("INSERT INTO spend_raises (id, org, amount, reason, approver, operator, created_ns, expires_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		raise.ID, o.Org, o.AmountNanoUsd, raise.Reason, raise.Approver, raise.Operator, raise.CreatedNs, raise.ExpiresNs)
	if err != nil {
		return nil, err
	}
	tx.wake = true // the reconciler compares the spend with the raised limit
	return result, tx.audit(o.Meta, org, o.Id)
}

// repeatsRaise reports whether a raise with this id and content exists. It refuses other content with CONFLICT.
func (tx *Tx) repeatsRaise(r SpendRaise) (bool, error) {
	old, found, err := first(tx, scanSpendRaise, selectSpendRaise+" WHERE id = ?", r.ID)
	if err != nil || !found {
		return false, err
	}
	if r.CreatedNs = old.CreatedNs; r != old {
		return false, api.Errorf(api.Conflict, "there is another raise %q already: choose another id", r.ID)
	}
	return true, nil
}
