package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
)

// FeatureLevel is the highest feature level that this binary understands. An entry written at a higher level
// stops the replica.
const FeatureLevel = 2

// firstLevel is the feature level of a store that was never raised.
const firstLevel = 1

// Level returns the feature level at which entries are written. RaiseLevel raises it, and no op lowers it.
func (m *Machine) Level() uint32 { return max(firstLevel, m.store.FeatureLevel()) }

func (m *Machine) maxLevel() uint32 {
	if m.MaxLevel == 0 {
		return FeatureLevel
	}
	return m.MaxLevel
}

// CheckLevel refuses a store that was raised to a level which this binary does not know, because records that
// newer binaries have written may not mean what they seem to mean. Callers call it after they open a store.
func (m *Machine) CheckLevel() error {
	if level := m.Level(); level > m.maxLevel() {
		return fmt.Errorf("the store has feature level %d, this binary knows %d: start a newer one", level, m.maxLevel())
	}
	return nil
}

// Admit refuses an op with UNSUPPORTED if the op needs a higher feature level than the namespace has, because
// some members may not know the op. Proposers call it before they propose.
func Admit(o Op, level uint32) error {
	return KindFor(o).admit(level)
}

func (k *Kind) admit(level uint32) error {
	if k.Since > level {
		return api.Errorf(api.Unsupported, "%s needs feature level %d, this namespace has %d: it rises once every member runs a binary that knows it", k.Name, k.Since, level)
	}
	return nil
}

// since fails if the op's entry was written at a level that does not have the op. It should not fail, because
// proposers call Admit.
func (k *Kind) since(level uint32) error {
	if k.Since > level {
		return fmt.Errorf("%s needs feature level %d, the entry was written at %d", k.Name, k.Since, level)
	}
	return nil
}
