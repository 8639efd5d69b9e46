package op

import (
	"errors"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/optable"
)

// RaiseLevel raises the feature level at which entries are written. The leader proposes it once every member
// knows the level. A member that does not know the level stops before it applies the op's entry, so it
// misreads nothing. The level never falls: a level below the present one is refused with STATE_CONFLICT, and
// the present one changes nothing.

// Validate refuses an op that no state could accept.
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
	now := max(optable.FirstLevel, head.FeatureLevel)
	to, err := optable.Raise(now, o.Level)
	if err != nil {
		return nil, err
	}
	if to > now {
		head.FeatureLevel = to
	}
	return &RaiseLevelResult{}, nil
}
