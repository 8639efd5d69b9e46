package op

import (
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// StartTerm is a new leader's first op. Its entry anchors the clock of the term. Leases that expired before it
// get a grace period from here.

// Number is StartTerm's number in the log.
func (*StartTerm) Number() entry.Number { return numStartTerm }

// Class is StartTerm's place among waiting proposals.
func (*StartTerm) Class() pipeline.Class { return KindOf(numStartTerm).Class }

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
