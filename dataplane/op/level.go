package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
)

// FeatureLevel is the highest feature level this binary understands; an entry
// written at a higher one stops the replica.
const FeatureLevel = 1

// firstLevel is that of a store in which no level was ever raised.
const firstLevel = 1

// Level is the feature level entries are written at: the one the store has been
// raised to. It only rises.
func (m *Machine) Level() uint32 { return max(firstLevel, m.store.FeatureLevel()) }

func (m *Machine) maxLevel() uint32 {
	if m.MaxLevel == 0 {
		return FeatureLevel
	}
	return m.MaxLevel
}

// CheckLevel refuses a store that has been raised to a level which this binary
// does not know: what newer binaries have written since may mean something else
// than it seems to. It is asked after a store was opened.
func (m *Machine) CheckLevel() error {
	if level := m.Level(); level > m.maxLevel() {
		return fmt.Errorf("the store has feature level %d, this binary knows %d: start a newer one", level, m.maxLevel())
	}
	return nil
}

// Admit refuses an op that a namespace of the given feature level does not have
// yet: its members may not all know it. Proposers ask before they propose.
func Admit(o Op, level uint32) error {
	return KindOf(o.Number()).admit(level)
}

func (k *Kind) admit(level uint32) error {
	if k.Since > level {
		return api.Errorf(api.Unsupported, "%s needs feature level %d, this namespace has %d: it rises once every member runs a binary that knows it", k.Name, k.Since, level)
	}
	return nil
}

// since refuses an op in an entry whose level does not have it: no proposer lets
// it get there.
func (k *Kind) since(level uint32) error {
	if k.Since > level {
		return fmt.Errorf("%s needs feature level %d, the entry was written at %d", k.Name, k.Since, level)
	}
	return nil
}
