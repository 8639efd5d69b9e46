package store

import (
	"fmt"
	"math"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// ProposeCorrection records a correction of usage, which changes nothing until another operator approves it.

// Validate refuses an op that no state could accept.
func (o *ProposeCorrection) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("org", checkID(o.Org))
	p.add("namespace", checkID(o.Namespace))
	if o.HourNs < 0 || o.HourNs%int64(time.Hour) != 0 {
		p.add("hour", fmt.Errorf("is not a whole hour: leave out minutes and seconds"))
	}
	p.add("queue", checkUTF8(o.Queue, MaxUsageWord))
	p.add("model", checkUTF8(o.Model, MaxUsageWord))
	p.add("provider", checkUTF8(o.Provider, MaxUsageWord))
	if !billing.Meter(o.Meter).Known() {
		p.add("meter", fmt.Errorf("is %d, which this version does not know", o.Meter))
	}
	if o.Quantity == 0 || o.Quantity == math.MinInt64 {
		p.add("quantity", fmt.Errorf("is %d: it takes -%d to %d, and not 0", o.Quantity, math.MaxInt64, math.MaxInt64))
	}
	p.add("reason", checkWord(o.Reason, MaxCorrectionReason))
	return p.err()
}

// Apply records the correction, which waits for ApproveRequest. A repeat with the same id and content changes nothing.
// Apply refuses with NOT_FOUND a namespace that the organisation has never had, but takes a deleted one. It refuses with
// CONFLICT an id that has other content and a correction above the limit, and it refuses as checkCorrection does.
func (o *ProposeCorrection) Apply(tx *Tx) (*ProposeCorrectionResult, error) {
	result := &ProposeCorrectionResult{Id: o.Id}
	ns, err := tx.namespace(o.Namespace)
	if err != nil {
		return nil, err
	}
	if string(ns.Org) != o.Org {
		return nil, noNamespace(o.Namespace)
	}
	c := Correction{
		ID: o.Id, Org: ns.Org, Namespace: tenancy.NamespaceID(o.Namespace), Reason: o.Reason, Status: CorrectionPending, Principal: o.Meta.GetPrincipal(), CreatedNs: tx.clockNs(),
		Row: billing.Row{Dimensions: billing.Dimensions{HourNs: o.HourNs, Queue: o.Queue, Model: o.Model, Provider: o.Provider}, Meter: billing.Meter(o.Meter), Quantity: o.Quantity},
	}
	if repeated, err := tx.repeatsCorrection(c); repeated || err != nil {
		return result, err
	}
	if err := tx.checkCorrection(c); err != nil {
		return nil, err
	}
	waiting, err := number(tx, "SELECT COUNT(*) FROM usage_corrections WHERE org = ? AND status = 'pending'", string(c.Org))
	if err != nil {
		return nil, err
	}
	if waiting >= tx.limits.corrections {
		return nil, api.Errorf(api.Conflict, "%d corrections of the organisation wait for approval, the maximum: approve or reject one first", tx.limits.corrections)
	}
	err = tx.put("INSERT INTO usage_corrections ("+correctionColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		c.ID, string(c.Org), string(c.Namespace), c.HourNs, c.Queue, c.Model, c.Provider, int64(c.Meter), c.Quantity, c.Reason, c.Status, c.Principal, c.CreatedNs, c.Decider, c.DecidedNs, c.Rejection)
	if err != nil {
		return nil, err
	}
	if err := tx.awaitApproval(o.Meta, approvalCorrection, o.Id); err != nil {
		return nil, err
	}
	return result, tx.audit(o.Meta, c.Org, o.Id)
}

// repeatsCorrection reports whether a correction with this id and content exists. It refuses other content with CONFLICT.
func (tx *Tx) repeatsCorrection(c Correction) (bool, error) {
	old, found, err := first(tx, scanCorrection, selectCorrection+" WHERE id = ?", c.ID)
	if err != nil || !found {
		return false, err
	}
	if old.Namespace != c.Namespace || old.Row != c.Row || old.Reason != c.Reason || old.Principal != c.Principal {
		return false, api.Errorf(api.Conflict, "there is another correction %q already: choose another id", c.ID)
	}
	return true, nil
}
