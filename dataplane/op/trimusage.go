package op

import (
	"errors"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// TrimUsage removes the usage rows numbered below first_seq. Removed rows are lost for good, so a first_seq
// below the first row kept, or above the next one, is refused with STATE_CONFLICT: only a proposer with
// another history can name it. The work does not depend on the number of removed rows.

// Validate refuses an op that no state could accept.
func (o *TrimUsage) Validate() error {
	var p problems
	o.Meta.check(&p)
	if o.FirstSeq == 0 {
		p.add("first_seq", errors.New("is missing; name the first row to keep"))
	}
	return p.err()
}

// Apply trims the usage.
func (o *TrimUsage) Apply(tx *state.Tx) (*TrimUsageResult, error) {
	switch head := tx.Head(); {
	case o.FirstSeq < head.UsageFirstSeq:
		return nil, api.Errorf(api.StateConflict, "usage row %d is gone already: the first one kept is %d", o.FirstSeq, head.UsageFirstSeq)
	case o.FirstSeq > head.UsageNextSeq:
		return nil, api.Errorf(api.StateConflict, "there is no usage row %d yet: the next one is %d", o.FirstSeq, head.UsageNextSeq)
	}
	if err := tx.TrimUsage(o.FirstSeq); err != nil {
		return nil, err
	}
	return &TrimUsageResult{}, nil
}
