package op

import (
	"errors"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// RaiseLevel raises the feature level that entries are written at. It is proposed
// once every member knows the level; a member that does not stops here, before
// anything it might misread. The level never falls: STATE_CONFLICT. A level that
// the namespace has already is no news.

// Number is RaiseLevel's number in the log.
func (*RaiseLevel) Number() entry.Number { return numRaiseLevel }

// Class is RaiseLevel's place among waiting proposals.
func (*RaiseLevel) Class() pipeline.Class { return table[numRaiseLevel].Class }

// Validate refuses what no state could accept.
func (o *RaiseLevel) Validate() error {
	var p problems
	o.Meta.check(&p)
	if o.Level == 0 {
		p.add("level", errors.New("is missing; levels start at 1"))
	}
	return p.err()
}

// Apply raises the level.
func (o *RaiseLevel) Apply(tx *state.Tx) (*RaiseLevelResult, error) {
	head := tx.Head()
	now := max(firstLevel, head.FeatureLevel)
	if o.Level < now {
		return nil, api.Errorf(api.StateConflict, "the feature level is %d and never falls: it cannot become %d", now, o.Level)
	}
	if o.Level > now {
		head.FeatureLevel = o.Level
	}
	return &RaiseLevelResult{}, nil
}
