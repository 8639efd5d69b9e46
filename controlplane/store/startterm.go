package store

import (
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// StartTerm is a new leader's first op. It changes nothing: its entry anchors the
// clock of the term.

// Number is StartTerm's number in the log.
func (*StartTerm) Number() entry.Number { return numStartTerm }

// Class is StartTerm's place among waiting proposals.
func (*StartTerm) Class() pipeline.Class { return table[numStartTerm].class }

// Validate refuses what no state could accept.
func (o *StartTerm) Validate() error {
	var p problems
	o.GetMeta().check(&p)

	return p.err()
}

// Apply answers. It refuses nothing.
func (o *StartTerm) Apply(*Tx) (*StartTermResult, error) { return &StartTermResult{}, nil }
