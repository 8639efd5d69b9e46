package optable

import (
	"fmt"

	"github.com/corvo/corvo/api"
)

// FirstLevel is the feature level of a state that was never raised (ADR 0017).
const FirstLevel = 1

// Admit refuses an op with UNSUPPORTED if the op needs a higher feature level than the one in force, because some
// members may not know the op. Proposers call it before they propose.
func (r *Row[Tx, I]) Admit(level uint32) error {
	if r.Since > level {
		return api.Errorf(api.Unsupported, "%s needs feature level %d, and level %d is in force: it rises once every member runs a binary that knows it", r.Name, r.Since, level)
	}
	return nil
}

// CheckSince fails if the op's entry was written at a level that does not have the op. It should not fail, because
// proposers call Admit.
func (r *Row[Tx, I]) CheckSince(level uint32) error {
	if r.Since > level {
		return fmt.Errorf("%s needs feature level %d, the entry was written at %d", r.Name, r.Since, level)
	}
	return nil
}

// Level is the highest feature level that a binary knows.
type Level uint32

// CheckEntry refuses an entry that was written at a higher level.
func (l Level) CheckEntry(index uint64, level uint32) error {
	if level > uint32(l) {
		return fmt.Errorf("entry %d was written at feature level %d, this binary knows %d: upgrade it", index, level, l)
	}
	return nil
}

// CheckRaise refuses an op that raises the level above l, because this binary could not apply the entries after it.
func (l Level) CheckRaise(to uint32) error {
	if to > uint32(l) {
		return fmt.Errorf("the feature level rises to %d, this binary knows %d: upgrade it", to, l)
	}
	return nil
}

// CheckState refuses a state that was raised to a higher level, because records that newer binaries have written may not
// mean what they seem to mean. Machines call it after they open or restore a state.
func (l Level) CheckState(level uint32) error {
	if level > uint32(l) {
		return fmt.Errorf("the store has feature level %d, this binary knows %d: start a newer one", level, l)
	}
	return nil
}

// Raise returns the level after an op that raises it. A level below the present one is refused with STATE_CONFLICT, because
// the level never falls; the present one changes nothing.
func Raise(now, to uint32) (uint32, error) {
	if to < now {
		return now, api.Errorf(api.StateConflict, "the feature level is %d and cannot fall to %d", now, to)
	}
	return to, nil
}
