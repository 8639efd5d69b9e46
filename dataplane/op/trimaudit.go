package op

import (
	"errors"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// TrimAudit removes the audit records numbered below first_seq. The head keeps the hash of the last removed
// record, so that the chain of the others can still be verified. A first_seq below the first record kept, or
// above the number that was next before the entry, is refused with STATE_CONFLICT, because only a proposer
// with another history can name it. The work does not depend on the number of removed records.

// Validate refuses an op that no state could accept.
func (o *TrimAudit) Validate() error {
	var p problems
	o.Meta.check(&p)
	if o.FirstSeq == 0 {
		p.add("first_seq", errors.New("is missing; name the first record to keep"))
	}
	return p.err()
}

// Apply trims the audit log.
func (o *TrimAudit) Apply(tx *state.Tx) (*TrimAuditResult, error) {
	switch first, next := tx.AuditRecords(); {
	case o.FirstSeq < first:
		return nil, api.Errorf(api.StateConflict, "audit record %d is gone already: the first one kept is %d", o.FirstSeq, first)
	case o.FirstSeq > next:
		return nil, api.Errorf(api.StateConflict, "there is no audit record %d yet: the next one is %d", o.FirstSeq, next)
	}
	if err := tx.TrimAudit(o.FirstSeq); err != nil {
		return nil, err
	}
	return &TrimAuditResult{}, nil
}
