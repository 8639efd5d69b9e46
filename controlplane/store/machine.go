package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/replica"
)

// machine is the state machine: it applies the ops of entries to SQLite.
type machine struct {
	dir    *directory
	limits limits                // set before the first Apply
	table  *optable.Table[*kind] // the ops that this binary knows
	known  optable.Level         // the highest feature level that this binary knows

	writing sync.Mutex // held by the user of the writing connection
	broken  error      // the reason why the state is no longer valid; guarded by writing

	swap sync.RWMutex // held for reading while a reader uses db, for writing while db is replaced
	db   *database    // nil once closed

	head    atomic.Pointer[head] // as committed
	changes changes

	mu          sync.RWMutex
	credentials map[string]fleet.Credential // all credentials by id
}

var _ replica.Machine = (*machine)(nil)

// openMachine opens the state in a directory, and creates it if it is missing. known is the highest feature level that
// this binary knows, and ops its table. openMachine refuses a state with a higher level.
func openMachine(path string, known optable.Level, ops *optable.Table[*kind]) (_ *machine, err error) {
	m := &machine{limits: defaultLimits, table: ops, known: known}
	if m.dir, err = openDirectory(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if m.db, err = openDatabase(m.dir.current()); err != nil {
		return nil, err
	}
	h, credentials, err := load(m.db)
	if err == nil {
		err = known.CheckState(h.level)
	}
	if err != nil {
		return nil, err
	}
	m.install(h, credentials)
	return m, nil
}

// load reads the parts of the state that are kept in memory.
func load(db *database) (head, map[string]fleet.Credential, error) {
	h, err := readHead(db)
	if err != nil {
		return h, nil, err
	}
	all, err := list(db, scanCredential, "SELECT "+credentialColumns+" FROM credentials ORDER BY id")
	if err != nil {
		return h, nil, err
	}
	credentials := make(map[string]fleet.Credential, len(all))
	for _, c := range all {
		credentials[c.ID] = c
	}
	return h, credentials, nil
}

func (m *machine) install(h head, credentials map[string]fleet.Credential) {
	m.mu.Lock()
	m.credentials = credentials
	m.mu.Unlock()
	m.head.Store(&h)
	m.changes.announce(h.docNumber)
}

// close closes the files. They hold every committed change, but only Flush makes them durable.
func (m *machine) close() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.swap.Lock()
	defer m.swap.Unlock()
	var err error
	if m.db != nil {
		err = m.db.close()
		m.db = nil
	}
	if m.broken == nil {
		m.broken = errClosed
	}
	return errors.Join(err, m.dir.close())
}

var errClosed = api.Errorf(api.LeaderUnavailable, "the control plane is shutting down")

// Applied returns the position of the last entry in the state.
func (m *machine) Applied() entry.Applied { return m.head.Load().applied }

// LastClock returns the clock of the last entry.
func (m *machine) LastClock() int64 { return m.head.Load().clockNs }

// Configuration returns the last recorded membership and its index.
func (m *machine) Configuration() ([]byte, uint64) {
	h := m.head.Load()
	return h.configuration, h.configurationIndex
}

// Configure records a membership change.
func (m *machine) Configure(at entry.Applied, configuration []byte) error {
	return m.transact(func(tx *Tx) error {
		tx.head.applied = at
		tx.head.configuration, tx.head.configurationIndex = configuration, at.Index
		return nil
	})
}

// Apply applies the ops of an entry in order, then removes rows that are too old, and ends credits that have expired. Each result is the op's
// result or the *api.Error that refused it.
func (m *machine) Apply(at entry.Applied, e entry.Entry) ([]any, error) {
	if err := m.known.CheckEntry(at.Index, e.Level); err != nil {
		return nil, err
	}
	ops := make([]decodedOp, len(e.Ops))
	for i, framed := range e.Ops {
		o, err := m.decode(framed, e.Level)
		if err != nil {
			return nil, fmt.Errorf("entry %d, op %d of %d: %w", at.Index, i+1, len(ops), err)
		}
		ops[i] = o
	}
	results := make([]any, len(ops))
	err := m.transact(func(tx *Tx) error {
		tx.head.applied = at
		tx.head.clockNs = max(tx.head.clockNs, e.ClockNs)
		for i, o := range ops {
			r, err := tx.applyOne(o)
			if err != nil {
				return fmt.Errorf("op %d of %d (%s): %w", i+1, len(ops), o.kind.Name, err)
			}
			results[i] = r
		}
		if err := tx.purgeRefusals((1 + len(ops)) * MaxRefusals); err != nil {
			return err
		}
		if err := tx.purge(purgeRows + 2*len(ops)); err != nil {
			return err
		}
		return tx.expireCredits(purgeRows + 2*len(ops))
	})
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", at.Index, err)
	}
	return results, nil
}

// decodedOp is one op of an entry, with its row of the table.
type decodedOp struct {
	kind *kind
	op   op
}

// decode decodes one op of an entry that was written at a level. It fails on a number, a field or bytes that this
// binary does not understand, on an op that the level does not have, and on an op that raises the level above the
// machine's. The op shares no memory with the entry.
func (m *machine) decode(framed entry.Op, level uint32) (decodedOp, error) {
	k, err := m.table.Known(framed.Number)
	if err != nil {
		return decodedOp{}, err
	}
	o, err := k.Decode(framed.Bytes)
	if err != nil {
		return decodedOp{}, err
	}
	if raise, ok := o.(*RaiseLevel); ok {
		if err := m.known.CheckRaise(raise.Level); err != nil {
			return decodedOp{}, err
		}
	}
	return decodedOp{k, o}, k.CheckSince(level)
}

// admit refuses an op that the feature level in force does not have.
func (m *machine) admit(o op) error {
	if k := m.table.Of(o); k != nil {
		return k.Admit(m.level())
	}
	return nil // the log refuses an op without a row
}

// level returns the feature level in force.
func (m *machine) level() uint32 { return m.head.Load().level }

// applyOne applies one op and returns its result or its refusal.
func (tx *Tx) applyOne(d decodedOp) (any, error) {
	var answer result
	o := d.op
	tx.kind = d.kind
	refused, err := tx.attempt(func() (err error) {
		if decided := o.GetMeta().GetTerm(); decided != 0 && decided != tx.head.applied.Term {
			return errOtherTerm(decided, tx.head.applied.Term)
		}
		answer, err = tx.applyOnce(o)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return refused, nil
	}
	return answer, nil
}

// errOtherTerm refuses an op that an earlier leader decided, because the present leader decides by a newer
// state and by other reports.
func errOtherTerm(decided, now uint64) error {
	return api.Errorf(api.StateConflict, "the leader of term %d decided this change, and term %d has begun: the present leader decides again", decided, now)
}

// transact runs f and writes the head in one transaction, then publishes the changes. If f or the commit
// fails, transact rolls the database back. After any error the machine refuses to apply, flush and restore;
// reads continue.
func (m *machine) transact(f func(*Tx) error) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if m.broken != nil {
		return m.broken
	}
	tx := &Tx{db: m.db, limits: m.limits, pending: pending{head: *m.head.Load()}}
	if err := m.commit(tx, f); err != nil {
		m.broken = fmt.Errorf("the state has failed: %w", err)
		return err
	}
	m.publish(tx)
	if err := m.db.boundWAL(); err != nil {
		m.broken = fmt.Errorf("the state has failed: %w", err)
		return err
	}
	return nil
}

func (m *machine) commit(tx *Tx, f func(*Tx) error) error {
	if _, err := m.db.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f(tx)
	if err == nil {
		err = writeHead(m.db, tx.head)
	}
	if err == nil {
		if _, err = m.db.exec("COMMIT"); err == nil {
			return nil
		}
	}
	_, rollbackErr := m.db.exec("ROLLBACK")
	return errors.Join(err, rollbackErr)
}

// publish shows a committed entry to readers: it updates the caches and then notifies waiting goroutines.
func (m *machine) publish(tx *Tx) {
	if len(tx.changes) > 0 {
		m.mu.Lock()
		for _, c := range tx.changes {
			if c.now == nil {
				delete(m.credentials, c.id)
				continue
			}
			m.credentials[c.id] = *c.now
		}
		m.mu.Unlock()
	}
	m.head.Store(&tx.head)
	if tx.wake {
		m.changes.announce(tx.head.docNumber)
	}
}

// Flush makes every applied entry durable. Raft's log may be truncated afterwards.
func (m *machine) Flush() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if m.broken != nil {
		return m.broken
	}
	if err := m.db.flush(); err != nil {
		m.broken = fmt.Errorf("the state could not be made durable: %w", err)
		return m.broken
	}
	return nil
}

// read runs f on a consistent view of the committed state.
func (m *machine) read(ctx context.Context, f func(reader) error) (err error) {
	m.swap.RLock()
	defer m.swap.RUnlock()
	if m.db == nil {
		return errClosed
	}
	tx, err := m.db.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() {
		// A transaction whose context has ended is rolled back already.
		if end := tx.Rollback(); end != nil && !errors.Is(end, sql.ErrTxDone) {
			err = errors.Join(err, end)
		}
	}()
	return f(reader{ctx: ctx, tx: tx})
}

// credential finds a credential in memory.
func (m *machine) credential(id string) (fleet.Credential, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, ok := m.credentials[id]
	return c, ok
}
