package store

import (
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// StartTerm is the first op of a new leader. It changes nothing; its entry fixes the clock of the term.

// Number returns StartTerm's number in the log.
func (*StartTerm) Number() entry.Number { return numStartTerm }

// Class returns StartTerm's priority among waiting proposals.
func (*StartTerm) Class() pipeline.Class { return kindOf(numStartTerm).Class }

// Validate refuses an op that no state could accept.
func (o *StartTerm) Validate() error {
	var p problems
	o.GetMeta().check(&p)

	return p.err()
}

// Apply returns an empty result. It refuses nothing.
func (o *StartTerm) Apply(*Tx) (*StartTermResult, error) { return &StartTermResult{}, nil }
