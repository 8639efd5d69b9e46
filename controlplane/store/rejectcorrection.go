package store

import "github.com/corvo/corvo/api"

// RejectCorrection ends a correction that waits for approval. One operator suffices, also the one who proposed it,
// because a rejection changes no usage.

// Validate refuses an op that no state could accept.
func (o *RejectCorrection) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("reason", checkWord(o.Reason, MaxCorrectionReason))
	return p.err()
}

// Apply ends the correction. It refuses with NOT_FOUND an unknown correction, and with STATE_CONFLICT one that does not
// wait.
func (o *RejectCorrection) Apply(tx *Tx) (*RejectCorrectionResult, error) {
	c, err := correction(tx, o.Id)
	if err != nil {
		return nil, err
	}
	switch c.Status {
	case CorrectionApplied:
		return nil, api.Errorf(api.StateConflict, "correction %s is applied: propose one of the opposite quantity", o.Id)
	case CorrectionRejected:
		return nil, api.Errorf(api.StateConflict, "correction %s is rejected already", o.Id)
	}
	if err := tx.endApproval(approvalCorrection, o.Id); err != nil {
		return nil, err
	}
	if err := tx.decideCorrection(o.Meta, o.Id, CorrectionRejected, o.Reason); err != nil {
		return nil, err
	}
	return &RejectCorrectionResult{}, tx.audit(o.Meta, c.Org, o.Id)
}
