package store

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// GrantCredit gives a credit to an organisation.

// Validate refuses an op that no state could accept.
func (o *GrantCredit) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("org", checkID(o.Org))
	if o.Currency != billing.USD {
		p.add("currency", fmt.Errorf("is %q: only %s is known", o.Currency, billing.USD))
	}
	if o.Amount <= 0 || o.Amount > int64(MaxCredit) {
		p.add("amount_usd", fmt.Errorf("is %s: a credit is above 0 and at most %s", money.Nano(o.Amount), MaxCredit))
	}
	p.add("reason", checkWord(o.Reason, MaxReason))
	p.add("expires_at", checkNotNegative(o.ExpiresNs))
	return p.err()
}

// Apply posts the credit. If operators alone have then granted more than MaxSole to the organisation in the calendar
// month, Apply records the credit without posting it, and it waits for ApproveRequest. A repeat with the same id and
// content changes nothing. Apply refuses with NOT_FOUND an unknown organisation, with CONFLICT an id that has other
// content and a credit above the limit, and with VALIDATION_ERROR an expiry that is over.
func (o *GrantCredit) Apply(tx *Tx) (*GrantCreditResult, error) {
	result := &GrantCreditResult{Id: o.Id}
	org := tenancy.OrgID(o.Org)
	if _, err := tx.org(org); err != nil {
		return nil, err
	}
	c := Credit{
		ID: o.Id, Org: org, Currency: o.Currency, Amount: money.Nano(o.Amount), Reason: o.Reason, Status: CreditPending,
		Principal: o.Meta.GetPrincipal(), CreatedNs: tx.clockNs(), ExpiresNs: o.ExpiresNs,
	}
	if repeated, err := tx.repeatsCredit(c); repeated || err != nil {
		return result, err
	}
	if o.ExpiresNs != 0 && o.ExpiresNs <= tx.clockNs() {
		return nil, api.Errorf(api.ValidationError, "the credit would end before it begins: choose a later expires_at")
	}
	open, err := number(tx, "SELECT COUNT(*) FROM credits WHERE org = ? AND ended_ns = 0", o.Org)
	if err != nil {
		return nil, err
	}
	if open >= tx.limits.credits {
		return nil, api.Errorf(api.Conflict, "the organisation has %d credits, the maximum: revoke one first", tx.limits.credits)
	}
	startNs, endNs := billing.MonthBefore(tx.clockNs() + 1)
	alone, err := tx.grantedAlone(org, startNs, endNs)
	if err != nil {
		return nil, err
	}
	if sum := alone.Add(money.CountOf(o.Amount)); sum.Compare(money.CountOf(int64(tx.limits.sole))) > 0 {
		err = tx.awaitApproval(o.Meta, approvalCredit, o.Id)
	} else {
		c.Status, c.Rest, c.GrantedNs = CreditActive, c.Amount, tx.clockNs()
		err = tx.postGrant(c)
	}
	if err != nil {
		return nil, err
	}
	err = tx.put("INSERT INTO credits ("+creditColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		c.ID, string(c.Org), c.Currency, int64(c.Amount), int64(c.Rest), c.Reason, c.Status, c.Principal, c.Approver, c.CreatedNs, c.GrantedNs, c.ExpiresNs, c.EndedNs)
	if err != nil {
		return nil, err
	}
	return result, tx.audit(o.Meta, org, o.Id)
}

// repeatsCredit reports whether a credit with this id and content exists. It refuses other content with CONFLICT.
func (tx *Tx) repeatsCredit(c Credit) (bool, error) {
	old, found, err := first(tx, scanCredit, selectCredit+" WHERE id = ?", c.ID)
	if err != nil || !found {
		return false, err
	}
	if old.Org != c.Org || old.Currency != c.Currency || old.Amount != c.Amount || old.Reason != c.Reason || old.ExpiresNs != c.ExpiresNs || old.Principal != c.Principal {
		return false, api.Errorf(api.Conflict, "there is another credit %q already: choose another id", c.ID)
	}
	return true, nil
}
