package op

import (
	"fmt"
	"io"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
)

// Machine applies entries of ops to a store. It implements replica.Machine.
type Machine struct {
	// Memory bounds what idempotency keys may occupy. It must be the same on every
	// replica and be set before the first Apply.
	Memory Memory

	store *state.Store
}

var _ replica.Machine = (*Machine)(nil)

// NewMachine is a machine on a store, which stays the caller's to close.
func NewMachine(store *state.Store) *Machine {
	return &Machine{Memory: DefaultMemory(), store: store}
}

// Apply applies an entry: settle ops first, so that what they free is there for
// the entry's fetches, the others in their order. Each result is the op's Result
// or the *api.Error that refused it. Nothing is written before every op of the
// entry could be read.
func (m *Machine) Apply(at entry.Applied, e entry.Entry) ([]any, error) {
	if e.Level > FeatureLevel {
		return nil, fmt.Errorf("entry %d was written at feature level %d, this binary knows %d: upgrade it", at.Index, e.Level, FeatureLevel)
	}
	ops := make([]Op, len(e.Ops))
	for i, framed := range e.Ops {
		o, err := Decode(framed)
		if err != nil {
			return nil, fmt.Errorf("entry %d, op %d of %d: %w", at.Index, i+1, len(ops), err)
		}
		ops[i] = o
	}
	tx := m.store.Begin(at, e.Header)
	results := make([]any, len(ops))
	for _, settle := range [...]bool{true, false} {
		for i, o := range ops {
			k := table[o.Number()]
			if (k.Class == pipeline.ClassSettle) != settle {
				continue
			}
			result, err := m.applyOnce(tx, k, o)
			if err == nil {
				results[i] = result
				continue
			}
			// Only a bare refusal is an answer. One that was wrapped on its way came
			// from where no refusal was expected.
			refused, ok := err.(*api.Error)
			if !ok {
				return nil, fmt.Errorf("entry %d, op %d of %d (%s): %w", at.Index, i+1, len(ops), k.Name, err)
			}
			results[i] = refused
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("entry %d: %w", at.Index, err)
	}
	return results, nil
}

// Decode reads one op of an entry. It fails on a number, a field or bytes that
// this binary does not understand. The op shares no memory with the entry.
func Decode(framed entry.Op) (Op, error) {
	k := KindOf(framed.Number)
	if k == nil {
		return nil, fmt.Errorf("op number %d is not known to this binary: upgrade it", framed.Number)
	}
	if err := k.schema().check(framed.Bytes); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k.Name, err)
	}
	o := k.New()
	if err := o.UnmarshalVT(framed.Bytes); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k.Name, err)
	}
	return o, nil
}

// Applied is the last entry in the store.
func (m *Machine) Applied() entry.Applied { return m.store.Applied() }

// LastClock is the clock of the last entry in Unix nanoseconds.
func (m *Machine) LastClock() int64 { return m.store.Head().ClockNs }

// Configure records a membership change.
func (m *Machine) Configure(at entry.Applied, configuration []byte) error {
	return m.store.PutConfiguration(at, configuration)
}

// Configuration is the last recorded membership and its index.
func (m *Machine) Configuration() (configuration []byte, index uint64) {
	return m.store.Configuration()
}

// Flush makes everything applied durable.
func (m *Machine) Flush() error { return m.store.Flush() }

// Image is a copy of the store to be streamed to another replica.
func (m *Machine) Image() (replica.Image, error) {
	image, err := m.store.Image()
	if err != nil {
		return nil, err
	}
	return image, nil
}

// Restore replaces the store's content by an image's stream.
func (m *Machine) Restore(r io.Reader) error { return m.store.Restore(r) }
