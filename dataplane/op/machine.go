package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
)

// Machine applies entries of ops to a store. It implements replica.Machine.
type Machine struct {
	// Memory limits the records of idempotency keys. It must be the same on every replica and be set before the
	// first Apply.
	Memory Memory
	// MaxLevel is the highest feature level that the machine accepts; 0 means FeatureLevel. It must be set before
	// the first Apply.
	MaxLevel uint32

	store         *state.Store
	subscriptions subscriptions // of the resources as of the last entry
}

var (
	_ replica.Machine = (*Machine)(nil)
	_ replica.Holder  = (*Machine)(nil)
)

// NewMachine returns a machine on a store. The caller closes the store.
func NewMachine(store *state.Store) *Machine {
	return &Machine{Memory: DefaultMemory(), store: store}
}

// Apply applies an entry. Settle ops come first, because the entry's fetches can use the capacity that settle
// ops free. Then come the other ops. Each group keeps the entry's order. Last come the notifications of
// webhooks about the entry's events. The i-th result is the Result of the i-th op, or the *api.Error that
// refused it. Apply decodes every op of the entry before it writes anything. An error means that the replica
// must stop.
func (m *Machine) Apply(at entry.Applied, e entry.Entry) ([]any, error) {
	if err := m.maxLevel().CheckEntry(at.Index, e.Level); err != nil {
		return nil, err
	}
	ops := make([]decodedOp, len(e.Ops))
	for i, framed := range e.Ops {
		o, err := m.read(framed, e.Level)
		if err != nil {
			return nil, fmt.Errorf("entry %d, op %d of %d: %w", at.Index, i+1, len(ops), err)
		}
		ops[i] = o
	}
	tx := m.store.Begin(at, e.Header)
	results := make([]any, len(ops))
	for _, settle := range [...]bool{true, false} {
		for i, o := range ops {
			if (o.kind.Class == pipeline.ClassSettle) != settle {
				continue
			}
			result, err := m.applyAudited(tx, o.kind, o.op)
			if err == nil {
				results[i] = result
				continue
			}
			// Only a bare refusal is an answer. A wrapped one comes from a step that should never refuse.
			refused, ok := err.(*api.Error)
			if !ok {
				return nil, fmt.Errorf("entry %d, op %d of %d (%s): %w", at.Index, i+1, len(ops), o.kind.Name, err)
			}
			results[i] = refused
		}
	}
	if err := m.subscriptions.notify(tx); err != nil {
		return nil, fmt.Errorf("entry %d: notify webhooks: %w", at.Index, err)
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("entry %d: %w", at.Index, err)
	}
	return results, nil
}

// decodedOp is one op of an entry, with its row of the table.
type decodedOp struct {
	kind *Kind
	op   Op
}

// read decodes one op of an entry that was written at a level. It fails on an op that this binary does not
// understand, on an op that the level does not have, and on an op that raises the level above MaxLevel,
// because this machine could not apply the entries after it.
func (m *Machine) read(framed entry.Op, level uint32) (decodedOp, error) {
	k, o, err := decode(framed)
	if err != nil {
		return decodedOp{}, err
	}
	if raise, ok := o.(*RaiseLevel); ok {
		if err := m.maxLevel().CheckRaise(raise.Level); err != nil {
			return decodedOp{}, err
		}
	}
	return decodedOp{k, o}, k.CheckSince(level)
}

// Decode reads one op of an entry. It fails on a number, a field or bytes that this binary does not
// understand. The op shares no memory with the entry.
func Decode(framed entry.Op) (Op, error) {
	_, o, err := decode(framed)
	return o, err
}

func decode(framed entry.Op) (*Kind, Op, error) {
	k, err := table.Known(framed.Number)
	if err != nil {
		return nil, nil, err
	}
	o, err := k.Decode(framed.Bytes)
	return k, o, err
}

// Applied returns the position of the last entry in the store.
func (m *Machine) Applied() entry.Applied { return m.store.Applied() }

// LastClock returns the clock of the last entry in Unix nanoseconds.
func (m *Machine) LastClock() int64 { return m.store.Head().ClockNs }

// Configure records a membership change.
func (m *Machine) Configure(at entry.Applied, configuration []byte) error {
	return m.store.PutConfiguration(at, configuration)
}

// Configuration returns the last recorded membership and its index.
func (m *Machine) Configuration() (configuration []byte, index uint64) {
	return m.store.Configuration()
}

// Flush makes all applied entries durable.
func (m *Machine) Flush() error { return m.store.Flush() }

// Image returns a copy of the store whose files are sent to another replica.
func (m *Machine) Image() (replica.Image, error) {
	i, err := m.store.Image()
	if err != nil {
		return nil, err
	}
	return i, nil
}

// Held returns the path of the store's table that has the part's name and size, or "" if there is none.
func (m *Machine) Held(p image.Part) string { return m.store.Held(p) }

// Restore replaces the store's content by the parts of an image. If this binary does not know the feature
// level of the new content, Restore fails after the replacement.
func (m *Machine) Restore(from image.Source) error {
	if err := m.store.Restore(from); err != nil {
		return err
	}
	return m.CheckLevel()
}
