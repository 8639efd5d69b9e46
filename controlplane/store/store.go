// Package store is the control plane's state: a replicated state machine whose
// content is SQLite. Every change is an op in the log; its SQL, the applied index
// and the audit row are one transaction. Observations (what hosts report, when
// keys were last used) are not state and not here. See DESIGN.md.
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
)

// group is the name of the control plane's raft group, for ever.
const group = "control-plane"

// Config says where the state lives.
type Config struct {
	Dir           string // holds raft/ and state/
	NodeID        string
	SnapshotBytes int64                // as engine.Config's
	Now           func() time.Time     // as engine.Config's
	Rand          io.Reader            // as engine.Config's
	Tracer        trace.TracerProvider // nil = none
	Logger        *slog.Logger         // nil = the default
}

// Store is the open state. Its methods may be called by any goroutine.
type Store struct {
	machine *machine
	group   *engine.Group
}

// Open opens or creates the state in c.Dir, as the sole member of its group. It
// returns before the store takes writes: see Ready.
func Open(c Config) (_ *Store, err error) {
	if c.Dir == "" {
		return nil, api.Errorf(api.ValidationError, "the control plane's state needs a directory")
	}
	// Signing keys are in the log and in the state: nobody else may read them.
	raft := filepath.Join(c.Dir, "raft")
	if err := engine.CheckSpace(raft); err != nil {
		return nil, err
	}
	if err := errors.Join(durable.MakeDir(raft, 0o700), os.Chmod(raft, 0o700)); err != nil {
		return nil, fmt.Errorf("open the control plane's state: %w", err)
	}
	s := &Store{}
	if s.machine, err = openMachine(filepath.Join(c.Dir, "state")); err != nil {
		return nil, fmt.Errorf("open the control plane's state: %w", err)
	}
	s.group, err = engine.Open(engine.Config{
		Dir: raft, Group: group, NodeID: c.NodeID, Machine: s.machine,
		StartTerm: func() engine.Op { return &StartTerm{Meta: &Meta{Principal: "engine"}} },
		Tuning:    engine.Tuning{SnapshotBytes: c.SnapshotBytes},
		Level:     func() uint32 { return FeatureLevel },
		Now:       c.Now, Rand: c.Rand, Tracer: c.Tracer, Logger: cmp.Or(c.Logger, slog.Default()),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the control plane's log: %w", err), s.machine.close())
	}
	return s, nil
}

// Ready waits until the store takes writes.
func (s *Store) Ready(ctx context.Context) error { return s.group.Ready(ctx) }

// Verify returns once every write acknowledged before the call is applied here.
func (s *Store) Verify(ctx context.Context) error { return s.group.Verify(ctx) }

// Err is why the store has stopped by itself; nil while it has not.
func (s *Store) Err() error { return s.group.Err() }

// Close makes the state durable and closes it.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.group.Close(ctx), s.machine.close())
}

// ClockNs is the clock the next entry would carry: what expiries are made from.
func (s *Store) ClockNs() int64 { return s.group.ClockNs() }

// Propose commits one op and returns its result. An op that is refused has
// changed nothing; every error is an *api.Error. What an answered op has written
// is seen by every read that begins afterwards.
func Propose[R any](ctx context.Context, s *Store, o engine.Op) (R, error) {
	answer, _, err := engine.Propose[R](ctx, s.group, o)
	return answer, err
}

// Changes answers the number of the newest document and a channel that is closed
// when there is a newer one, or when anything else has changed that the
// reconciler or a follower of documents works from: a host, the signing keys.
func (s *Store) Changes() (number int64, changed <-chan struct{}) { return s.machine.changes.watch() }
