package store

import (
	"fmt"

	"github.com/corvo/corvo/api"
)

// ApproveRequest carries out a request of an operator that waits for a second person.

// Validate refuses an op that no state could accept.
func (o *ApproveRequest) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	if approvals[o.Kind] == nil {
		p.add("kind", fmt.Errorf("is %q, which is no kind of request that waits", o.Kind))
	}
	p.add("id", checkID(o.Id))
	return p.err()
}

// Apply carries out the request. It refuses with NOT_FOUND a request that does not wait, and with FORBIDDEN an
// approver who is no second person.
func (o *ApproveRequest) Apply(tx *Tx) (*ApproveRequestResult, error) {
	waits, found, err := first(tx, scanApproval, "SELECT principal, at_ns FROM approvals WHERE kind = ? AND id = ?", o.Kind, o.Id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, api.Errorf(api.NotFound, "no %s %q waits for approval", o.Kind, o.Id)
	}
	if err := tx.checkSecondPerson(o.Meta, waits); err != nil {
		return nil, err
	}
	if err := tx.endApproval(o.Kind, o.Id); err != nil {
		return nil, err
	}
	return &ApproveRequestResult{}, approvals[o.Kind](tx, o.Meta, o.Id)
}
