package replica

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// fsm adapts the machine to raft. It is thin: it decodes entries, checks their order, and stops the replica
// at the first error. Raft calls it from one goroutine.
//
// fsm implements ApplyBatch because raft passes configuration entries to it with their term. Raft's other
// interface for configuration entries gets no term and returns no error. ApplyBatch saves no time, because an
// entry is a batch already.
type fsm struct{ r *Replica }

// outcome is the result of applying one entry.
type outcome struct {
	results []any
	at      entry.Position
	err     error
}

func (f fsm) ApplyBatch(logs []*raft.Log) []any {
	outcomes := make([]any, len(logs))
	for i, l := range logs {
		outcomes[i] = f.apply(l)
	}
	return outcomes
}

// Apply satisfies raft.FSM; raft calls ApplyBatch.
func (f fsm) Apply(l *raft.Log) any { return f.apply(l) }

func (f fsm) apply(l *raft.Log) *outcome {
	out := &outcome{at: entry.Position{Index: l.Index, Term: l.Term}}
	if f.r.Err() != nil {
		out.err = f.r.Unhealthy()
		return out
	}
	var err error
	switch l.Type {
	case raft.LogConfiguration:
		err = f.configure(l)
	case raft.LogCommand:
		err = f.command(l, out)
	default:
		err = fmt.Errorf("raft handed over an entry of type %s", l.Type)
	}
	if err != nil {
		f.r.fail(fmt.Errorf("apply entry %d of term %d: %w", l.Index, l.Term, err))
		out.results, out.err = nil, f.r.Unhealthy()
		return out
	}
	f.r.applyWaiters.reached(l.Index)
	return out
}

func (f fsm) configure(l *raft.Log) error {
	at, err := f.next(l)
	if err != nil {
		return err
	}
	if err := f.r.machine.Configure(at, l.Data); err != nil {
		return err
	}
	f.r.notifyChange()
	return nil
}

func (f fsm) command(l *raft.Log, out *outcome) error {
	at, err := f.next(l)
	if err != nil {
		return err
	}
	e, err := entry.Decode(l.Data)
	if err != nil {
		return err
	}
	if e.Incarnation != at.Incarnation {
		return fmt.Errorf("it belongs to history %v, this replica to %v", e.Incarnation, at.Incarnation)
	}
	// Raft may hold an entry while leadership is lost and won again, and append it in a later term than that
	// of its proposal, even before the later term's first entry. Every replica applies it as an empty entry,
	// and ignores its clock, which may be older than the machine's.
	stale := fenced(l)
	if stale {
		e.Ops, e.ClockNs, out.err = nil, max(e.ClockNs, f.r.machine.LastClock()), errNotLeader()
	}
	var end func(error)
	if f.r.trace != nil && e.Trace != (entry.Trace{}) && !stale && l.Index > f.r.replayed {
		end = f.r.trace(e.Trace, out.at, len(e.Ops))
	}
	results, err := f.r.machine.Apply(at, e)
	if end != nil {
		end(err)
	}
	if err != nil {
		return err
	}
	if len(results) != len(e.Ops) {
		return fmt.Errorf("the machine answered %d results for %d ops", len(results), len(e.Ops))
	}
	out.results = results
	return nil
}

// next returns the position of an entry. It refuses an entry that the machine has already applied.
func (f fsm) next(l *raft.Log) (entry.Applied, error) {
	at := f.r.identity
	at.Index, at.Term = l.Index, l.Term
	if last := f.r.machine.Applied(); last.Index >= l.Index {
		return at, fmt.Errorf("the machine has applied entry %d already", last.Index)
	}
	return at, nil
}

// fence encodes the term of an entry's proposal, as the extension of raft's log entry.
func fence(term uint64) []byte { return binary.LittleEndian.AppendUint64(nil, term) }

// fenced reports whether raft appended an entry in another term than that of its proposal.
func fenced(l *raft.Log) bool {
	return len(l.Extensions) != 8 || binary.LittleEndian.Uint64(l.Extensions) != l.Term
}

// Snapshot only records the machine's position; Persist makes the machine durable.
func (f fsm) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.r.Err(); err != nil {
		return nil, err
	}
	return &flush{r: f.r, at: f.r.machine.Applied().Position()}, nil
}

// Restore replaces the machine by the received snapshot that was opened last. It ignores raft's stream,
// because it needs the parts that the stream announces.
func (f fsm) Restore(io.ReadCloser) error {
	if err := f.r.Err(); err != nil {
		return err
	}
	f.r.snapshots.mu.Lock()
	got := f.r.snapshots.restore
	f.r.snapshots.mu.Unlock()
	err := f.r.snapshots.install(got)
	if err != nil {
		f.r.fail(fmt.Errorf("take over the snapshot of entry %d: %w", got.Index, err))
		return err
	}
	f.r.journal.cutAt(got.Index) // raft truncates the log next
	f.r.journal.appendWaiters.reached(got.Index)
	f.r.applyWaiters.reached(got.Index)
	f.r.notifyChange()
	return nil
}

// flush is a snapshot that is being taken. It makes the machine durable; then the sink's Close writes the
// manifest; only then may raft truncate the log.
type flush struct {
	r  *Replica
	at entry.Position
}

func (s *flush) Persist(to raft.SnapshotSink) error {
	if err := s.r.machine.Flush(); err != nil {
		err = fmt.Errorf("flush the machine: %w", err)
		s.r.fail(err)
		return err
	}
	if err := s.r.Err(); err != nil {
		return err
	}
	k, ok := to.(*sink)
	if !ok {
		return fmt.Errorf("raft brought a sink of type %T", to)
	}
	if err := k.persisted(s.at); err != nil {
		s.r.fail(err)
		return err
	}
	return nil
}

func (s *flush) Release() {}
