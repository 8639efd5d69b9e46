package op

import "github.com/corvo/corvo/engine/optable"

// FeatureLevel is the highest feature level that this binary understands. An entry written at a higher level
// stops the replica.
const FeatureLevel = 2

// Level returns the feature level at which entries are written. RaiseLevel raises it, and no op lowers it.
func (m *Machine) Level() uint32 { return max(optable.FirstLevel, m.store.FeatureLevel()) }

func (m *Machine) maxLevel() optable.Level {
	if m.MaxLevel == 0 {
		return FeatureLevel
	}
	return optable.Level(m.MaxLevel)
}

// CheckLevel refuses a store that was raised to a level which this binary does not know. Callers call it after they
// open a store.
func (m *Machine) CheckLevel() error { return m.maxLevel().CheckState(m.Level()) }

// Admit refuses an op with UNSUPPORTED if the op needs a higher feature level than the namespace has. Proposers call
// it before they propose.
func Admit(o Op, level uint32) error { return KindFor(o).Admit(level) }
