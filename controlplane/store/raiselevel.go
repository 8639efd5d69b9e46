package store

import (
	"context"
	"errors"
	"strconv"

	"github.com/corvo/corvo/engine/optable"
)

// RaiseLevel raises the feature level at which entries are written. The leader proposes it once every process knows the
// level. A process that does not know the level stops before it applies the op's entry, so that it misreads nothing.

// Validate refuses an op that no state could accept.
func (o *RaiseLevel) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	if o.Level == 0 {
		p.add("level", errors.New("is missing; levels start at 1"))
	}
	return p.err()
}

// Apply raises the level. It refuses a level below the present one with STATE_CONFLICT; the present one changes nothing.
func (o *RaiseLevel) Apply(tx *Tx) (*RaiseLevelResult, error) {
	to, err := optable.Raise(tx.head.level, o.Level)
	if err != nil {
		return nil, err
	}
	if to == tx.head.level {
		return &RaiseLevelResult{}, nil
	}
	tx.head.level = to
	if err := tx.put("INSERT INTO feature_levels (level, raised_ns) VALUES (?, ?)", int64(to), tx.clockNs()); err != nil {
		return nil, err
	}
	return &RaiseLevelResult{}, tx.audit(o.Meta, "", strconv.FormatUint(uint64(to), 10))
}

// Level returns the feature level in force.
func (s *Store) Level() uint32 { return s.machine.level() }

// RaiseLevel raises the feature level whenever this process leads and every process knows a higher level, until ctx ends.
// Its errors are those of Lead.
func (s *Store) RaiseLevel(ctx context.Context) error {
	return s.Lead(ctx, func(ctx context.Context, term uint64) error {
		s.group.RaiseLevel(ctx, nil, func(ctx context.Context, level uint32) error {
			_, err := ProposeInTerm[any](ctx, s, term, &RaiseLevel{Meta: &Meta{Principal: "leader"}, Level: level})
			return err
		})
		return nil
	})
}
