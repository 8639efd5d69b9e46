package store

import "github.com/corvo/corvo/api"

// RevokeCredit ends a credit and takes back its unused rest. One operator suffices, because a revocation pays nothing
// out.

// Validate refuses an op that no state could accept.
func (o *RevokeCredit) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("reason", checkWord(o.Reason, MaxReason))
	return p.err()
}

// Apply ends the credit. A credit that waits for approval is withdrawn. Apply refuses with NOT_FOUND an unknown credit,
// and with STATE_CONFLICT one that has ended.
func (o *RevokeCredit) Apply(tx *Tx) (*RevokeCreditResult, error) {
	c, err := credit(tx, o.Id)
	if err != nil {
		return nil, err
	}
	if c.EndedNs != 0 {
		return nil, api.Errorf(api.StateConflict, "credit %s has ended: it is %s", o.Id, c.Status)
	}
	status := CreditRevoked
	if c.Status == CreditPending {
		status = CreditWithdrawn
	}
	if err := tx.endCredit(c, status, o.Meta.GetPrincipal(), o.Reason); err != nil {
		return nil, err
	}
	return &RevokeCreditResult{}, tx.audit(o.Meta, c.Org, o.Id)
}
