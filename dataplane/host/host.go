// Package host is a data-plane process's cells: it opens and closes them, shares
// caches between them and parks the polls that wait for work, outside the cells.
// It knows neither HTTP nor keys; whoever calls it has proved which namespace it
// may name.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// Config says where the cells of a host live.
type Config struct {
	DataDir    string // cells live in <DataDir>/ns/<namespace>/<shard>
	NodeID     string
	CacheBytes int64 // block cache shared by all stores; 0 = DefaultCacheBytes
	// SnapshotBytes is how much log gathers before it is cut; 0 = the engine's
	// default.
	SnapshotBytes int64
	Logger        *slog.Logger
}

// DefaultCacheBytes is the block cache of a host that says nothing.
const DefaultCacheBytes = 64 << 20

// Host is a process's cells.
type Host struct {
	cfg    Config
	shared *state.Shared

	mu    sync.RWMutex // guards cells
	cells map[tenancy.NamespaceID]*tenant
}

// tenant is one namespace's cell and its waiting polls.
type tenant struct {
	cell *cell.Cell
	lot  *lot
}

// Open makes a host without cells.
func Open(cfg Config) *Host {
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = DefaultCacheBytes
	}
	return &Host{
		cfg:    cfg,
		shared: state.NewShared(cfg.CacheBytes),
		cells:  make(map[tenancy.NamespaceID]*tenant),
	}
}

// Add opens the cell of a namespace and waits until it takes writes.
func (h *Host) Add(ctx context.Context, ns tenancy.NamespaceID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.cells[ns]; ok {
		return api.Errorf(api.Conflict, "namespace %s is open already", ns)
	}
	waiting := newLot()
	c, err := cell.Open(cell.Config{
		Dir:           filepath.Join(h.cfg.DataDir, "ns", string(ns), "0"),
		Group:         string(ns) + "/0",
		NodeID:        h.cfg.NodeID,
		Shared:        h.shared,
		OnReady:       waiting.wake,
		SnapshotBytes: h.cfg.SnapshotBytes,
		Logger:        h.cfg.Logger,
	})
	if err != nil {
		return fmt.Errorf("open namespace %s: %w", ns, err)
	}
	if err := c.Ready(ctx); err != nil {
		return errors.Join(fmt.Errorf("open namespace %s: %w", ns, err), c.Close(ctx))
	}
	h.cells[ns] = &tenant{cell: c, lot: waiting}
	return nil
}

// Cell is the open cell of a namespace.
func (h *Host) Cell(ns tenancy.NamespaceID) (*cell.Cell, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return nil, err
	}
	return t.cell, nil
}

func (h *Host) tenant(ns tenancy.NamespaceID) (*tenant, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	t, ok := h.cells[ns]
	if !ok {
		return nil, api.Errorf(api.NotFound, "this host does not serve namespace %q", ns)
	}
	return t, nil
}

// Park waits until one of the queues has a job that a fetch may claim, and
// returns nil; or until ctx ends, and returns its error. It returns at once when
// there is one already. The caller must follow a nil with Claim: it may be the
// only poll that was woken for that job.
func (h *Host) Park(ctx context.Context, ns tenancy.NamespaceID, queues []string) error {
	t, err := h.tenant(ns)
	if err != nil {
		return err
	}
	return t.lot.park(ctx, queues, t.cell.Claimable)
}

// Polls are the figures of a namespace's waiting polls.
type Polls struct {
	Parked  int    // waiting now
	Refused uint64 // refused since the namespace was opened, because MaxParked waited
}

// Polls are the figures of the polls that wait in a namespace.
func (h *Host) Polls(ns tenancy.NamespaceID) (Polls, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return Polls{}, err
	}
	return Polls{Parked: int(t.lot.count.Load()), Refused: t.lot.refused.Load()}, nil
}

// Close closes every cell and gives the shared caches back. No call may be under
// way or come after.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for ns, t := range h.cells {
		if err := t.cell.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close namespace %s: %w", ns, err))
		}
	}
	clear(h.cells)
	h.shared.Close()
	return errors.Join(errs...)
}
