package op

import (
	"github.com/corvo/corvo/dataplane/state"
)

// StartTerm is a new leader's first op. Its entry anchors the clock of the term and marks the history of the
// term's entries. For job.ReclaimGrace after the op, or for the length of the job's lease if that is shorter, a
// job is not reclaimed, so that its worker can find the new leader.

// Validate refuses an op that no state could accept.
func (o *StartTerm) Validate() error {
	var p problems
	o.Meta.check(&p)
	return p.err()
}

// Apply records the start of the term. It refuses nothing.
func (o *StartTerm) Apply(tx *state.Tx) (*StartTermResult, error) {
	return &StartTermResult{}, tx.StartTerm()
}
