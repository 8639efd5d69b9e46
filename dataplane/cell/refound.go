package cell

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
)

// Refounding describes how a closed cell becomes the beginning of another history, from this member's copy alone.
type Refounding struct {
	Dir      string
	Group    string
	From, To entry.Incarnation // the history of the copy, and the new one
	Shared   *state.Shared
	Engine   engine.Tuning
	Logger   *slog.Logger
}

// Replay applies all entries of the copy's log, and returns the exchange with the other shards as it is then: see
// engine.Replay. It changes nothing in a cell whose store has the new history already. It can be repeated after a crash.
func (r Refounding) Replay() (_ map[uint32]state.Crossing, err error) {
	store, err := state.Open(filepath.Join(r.Dir, "state"), state.Options{Shared: r.Shared})
	if err != nil {
		return nil, fmt.Errorf("open the store of %s: %w", r.Group, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if store.Applied().Incarnation != r.To {
		err := engine.Replay(engine.Config{
			Dir: filepath.Join(r.Dir, "raft"), Group: r.Group, Incarnation: &r.From, Machine: op.NewMachine(store), Tuning: r.Engine, Logger: r.Logger,
		})
		if err != nil {
			return nil, fmt.Errorf("replay the log of %s: %w", r.Group, err)
		}
	}
	snap := store.Snapshot()
	crossings, err := snap.Crossings()
	return crossings, errors.Join(err, snap.Close())
}

// Begin makes the replayed cell the beginning of the new history. The node that opens the cell next bootstraps the group.
// The view is deleted, because it follows the feed of the earlier history. senders holds the other shards of the
// namespace. Begin can be repeated after a crash, until the cell is opened.
func (r Refounding) Begin(senders map[uint32]state.Sender) error {
	if err := os.RemoveAll(filepath.Join(r.Dir, "view")); err != nil {
		return err
	}
	if err := state.Refound(filepath.Join(r.Dir, "state"), state.Options{Shared: r.Shared}, r.To, senders); err != nil {
		return err
	}
	return engine.Refound(filepath.Join(r.Dir, "raft"), r.To)
}
