package replica

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// The tests of this package use these words. A tape is a machine in memory that remembers every op of its
// entries, and a word is one of these ops. Flush copies the tape aside, and a restart continues from the
// copy. A memory is a log in memory whose writes fail on request. run opens a replica on a tape and a memory
// and waits until it leads. bootstrapped returns a log whose first entry makes the replica the only member.

// tape is a machine in memory that remembers the entries it was given. Flush copies them aside.
type tape struct {
	mu       sync.Mutex
	now      taped
	flushed  taped
	flushErr error
	applyErr error
	forgets  bool               // Apply answers one result too few
	images   int                // taken so far
	poses    *entry.Incarnation // the history that images claim to be of; nil = the real one
}

type taped struct {
	At      entry.Applied
	ClockNs int64
	Members []byte
	Index   uint64
	Ops     []string
}

func (m *tape) Applied() entry.Applied {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.At
}

func (m *tape) LastClock() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.ClockNs
}

func (m *tape) Apply(at entry.Applied, e entry.Entry) ([]any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.applyErr != nil {
		return nil, m.applyErr
	}
	var results []any
	for _, o := range e.Ops {
		m.now.Ops = append(m.now.Ops, string(o.Bytes))
		results = append(results, string(o.Bytes))
	}
	m.now.At, m.now.ClockNs = at, e.ClockNs
	if m.forgets {
		results = results[1:]
	}
	return results, nil
}

func (m *tape) Configure(at entry.Applied, configuration []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.At, m.now.Members, m.now.Index = at, configuration, at.Index
	return nil
}

func (m *tape) Configuration() ([]byte, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Members, m.now.Index
}

func (m *tape) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flushErr == nil {
		m.flushed = m.now
	}
	return m.flushErr
}

// memory is a Log in memory whose writes can be made to fail.
type memory struct {
	*raft.InmemStore
	mu  sync.Mutex
	err error
}

func newMemory() *memory { return &memory{InmemStore: raft.NewInmemStore()} }

func (m *memory) breakWith(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) broken() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (m *memory) StoreLogs(logs []*raft.Log) error {
	return errors.Join(m.broken(), m.InmemStore.StoreLogs(logs))
}

func (m *memory) Set(k, v []byte) error { return errors.Join(m.broken(), m.InmemStore.Set(k, v)) }

func (m *memory) SetUint64(k []byte, v uint64) error {
	return errors.Join(m.broken(), m.InmemStore.SetUint64(k, v))
}

func (m *memory) Size() (int64, error) { return 0, nil }
func (m *memory) Close() error         { return nil }

// run opens a replica, waits until it leads, and returns the term of its leadership.
func run(t *testing.T, dir string, m *tape, log Log) (*Replica, uint64) {
	t.Helper()
	led := make(chan uint64, 1)
	r, err := Open(Config{
		Dir: dir, Group: ours.Group, Incarnation: ours.Incarnation, ID: "one", Machine: m, Log: log,
		Logger: slog.New(slog.DiscardHandler),
		Leadership: func(_ *Replica, leads bool, term uint64) {
			if leads {
				select {
				case led <- term:
				default:
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // idempotent
	return r, <-led
}

func bootstrapped(t *testing.T, m *tape) *memory {
	t.Helper()
	log := newMemory()
	if err := Bootstrap(log, "one", "one", m); err != nil {
		t.Fatal(err)
	}
	return log
}

type word string

func (w word) MarshalToSizedBufferVT(to []byte) (int, error) { return copy(to, w), nil }

func encode(t *testing.T, of entry.Incarnation, clock int64, words ...string) []byte {
	t.Helper()
	var b entry.Builder
	for _, w := range words {
		if err := b.Add(1, len(w), word(w)); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(entry.Header{Level: 1, Incarnation: of, ClockNs: clock})
}
