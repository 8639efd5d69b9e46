// Package store is the control plane's state: a replicated state machine on SQLite. Every change is an op in
// the log. One transaction holds the SQL of an entry's ops, the applied index and the audit rows.
// Observations (reports of hosts, the last use of keys) are not part of the state. See DESIGN.md.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
)

// RaftDir is the directory of the log below Config.Dir.
const RaftDir = "raft"

// group is the permanent name of the control plane's raft group.
const group = "control-plane"

// Config configures a store.
type Config struct {
	Dir    string // holds raft/ and state/; required
	NodeID string
	// Engine tunes the group. Its Transport reaches the other processes of the control plane; without one this
	// process is alone, for as long as it is open.
	Engine engine.Tuning
	// MaxLevel is the highest feature level that this process takes; 0 = FeatureLevel. Tests of an upgrade set it.
	MaxLevel uint32
	Join     *entry.Incarnation   // of the group that an empty directory joins; nil = the directory founds one
	Now      func() time.Time     // as engine.Config's
	Rand     io.Reader            // as engine.Config's
	Tracer   trace.TracerProvider // nil = none
	Logger   *slog.Logger         // nil = the default
}

// Store is the open state. Any goroutine may call its methods.
type Store struct {
	machine *machine
	group   *engine.Group
	shared  bool // other processes may lead
}

// Open opens or creates the state in c.Dir. It returns before the store takes writes: see Ready. The error is
// CONFLICT if another process has the state open.
func Open(c Config) (_ *Store, err error) {
	if c.Dir == "" {
		return nil, api.Errorf(api.ValidationError, "the control plane's state needs a directory")
	}
	// Only the owner may read the log and the state, because both hold signing keys.
	raft := filepath.Join(c.Dir, RaftDir)
	if err := engine.CheckSpace(raft); err != nil {
		return nil, err
	}
	if err := errors.Join(durable.MakeDir(raft, 0o700), os.Chmod(raft, 0o700)); err != nil {
		return nil, fmt.Errorf("open the control plane's state: %w", err)
	}
	s := &Store{shared: c.Engine.Transport != nil}
	known := cmp.Or(c.MaxLevel, FeatureLevel)
	if s.machine, err = openMachine(filepath.Join(c.Dir, "state"), optable.Level(known), table); err != nil {
		return nil, fmt.Errorf("open the control plane's state: %w", err)
	}
	s.group, err = engine.Open(engine.Config{
		Dir: raft, Group: group, NodeID: c.NodeID, Machine: s.machine,
		StartTerm: func() engine.Op { return table.Proposal(&StartTerm{Meta: &Meta{Principal: "engine"}}) },
		Codec:     codec{table}, Join: c.Join, Tuning: c.Engine,
		Level: s.machine.level, MaxLevel: known,
		Now: c.Now, Rand: c.Rand, Tracer: c.Tracer, Logger: cmp.Or(c.Logger, slog.Default()),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the control plane's log: %w", err), s.machine.close())
	}
	return s, nil
}

// Ready waits until the store takes writes, perhaps by forwarding them to the leader. The error is
// LEADER_UNAVAILABLE if ctx ends or the store is closed, and UNHEALTHY if the store fails.
func (s *Store) Ready(ctx context.Context) error { return s.group.Ready(ctx) }

// Verify returns once every write acknowledged before the call, by any process, is applied here. Without
// other processes that is always so, and Verify costs nothing. The error is LEADER_UNAVAILABLE if no leader
// is confirmed before ctx ends, and VIEW_BEHIND if this process has not caught up by then.
func (s *Store) Verify(ctx context.Context) error {
	if !s.shared {
		return nil
	}
	return s.group.Verify(ctx)
}

// Shared reports whether other processes may hold the state too.
func (s *Store) Shared() bool { return s.shared }

// Group returns the store's Raft group, for its cluster.
func (s *Store) Group() *engine.Group { return s.group }

// Err returns the error that stopped the store; nil = it runs.
func (s *Store) Err() error { return s.group.Err() }

// Close stops the group as engine.Group.Close does, makes the state durable and closes it.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.group.Close(ctx), s.machine.close())
}

// ClockNs returns the clock that the next entry would carry; in a process that does not lead, the clock of
// the last applied entry. Expiries are computed from it.
func (s *Store) ClockNs() int64 { return s.group.ClockNs() }

// Propose commits one op and returns its result. It refuses an op that is newer than the feature level in force
// with UNSUPPORTED. If another process leads, Propose forwards the op. A refused op has changed nothing, but
// after LEADER_UNAVAILABLE or UNHEALTHY the op may have been committed. Every error is an *api.Error. Every read
// of s that begins after Propose has returned a result sees the op's changes.
func Propose[R any](ctx context.Context, s *Store, o Op) (R, error) {
	if err := s.machine.admit(o); err != nil {
		var none R
		return none, err
	}
	answer, at, err := engine.Propose[R](ctx, s.group, table.Proposal(o))
	if err != nil {
		return answer, err
	}
	if err := s.group.Await(ctx, at.Index); err != nil {
		var none R
		return none, api.Wrap(err, api.LeaderUnavailable, "the change was made, and this process has not applied it yet: read it again later")
	}
	return answer, nil
}

// ProposeInTerm commits an op that the leader decided by itself, in the given term of its leadership and in
// no other. It sets the term in the op's Meta, which must not be nil. If the term ends before the op is in
// the log, the op changes nothing: ProposeInTerm returns LEADER_UNAVAILABLE, or Apply refuses the op as
// STATE_CONFLICT.
func ProposeInTerm[R any](ctx context.Context, s *Store, term uint64, o Op) (R, error) {
	if err := s.machine.admit(o); err != nil {
		var none R
		return none, err
	}
	o.GetMeta().Term = term
	answer, _, err := engine.ProposeInTerm[R](ctx, s.group, term, table.Proposal(o))
	return answer, err
}

// Lead runs f whenever this process leads the control plane, until ctx ends. It passes f the term and a
// context that ends with the leadership. f must itself read the state that it decides by, because a state
// read earlier may be of another leader's term. Lead returns f's error, unless that is the end of f's
// context; the store's error if the store has failed or is closed; and nil when ctx ends.
func (s *Store) Lead(ctx context.Context, f func(ctx context.Context, term uint64) error) error {
	return s.group.Lead(ctx, func(ctx context.Context) error {
		term, ok := s.LeadingTerm()
		if !ok {
			return nil // the term is over already
		}
		return f(ctx, term)
	})
}

// LeadingTerm returns the term in which this process leads the control plane; ok is false if it does not.
func (s *Store) LeadingTerm() (term uint64, ok bool) { return s.group.LeadingTerm() }

// Changes returns the number of the newest document and a channel. The channel is closed when a newer
// document exists, or when a host or a signing key changes, because the reconciler and the followers of
// documents depend on both.
func (s *Store) Changes() (number int64, changed <-chan struct{}) { return s.machine.changes.watch() }
