// Package host is a data-plane process's cells: it opens and closes them, deletes
// their data, shares caches between them and parks the polls that wait for work,
// outside the cells. It knows neither HTTP nor keys; whoever calls it has proved
// which namespace it may name.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"

	"go.opentelemetry.io/otel/trace"
)

// Config says where the cells of a host live.
type Config struct {
	DataDir    string // cells live in <DataDir>/ns/<namespace>/<shard>
	NodeID     string
	CacheBytes int64 // block cache shared by all stores; 0 = DefaultCacheBytes
	MaxCells   int   // open at once; 0 = DefaultMaxCells
	// SnapshotBytes is how much log gathers before it is cut; 0 = the engine's
	// default.
	SnapshotBytes int64
	// SegmentBytes is the size of a cell's log files, of which one is preallocated; 0
	// = raftlog's default.
	SegmentBytes int
	Receiver     sinks.Receiver       // gets the usage of all cells; nil = nobody does
	Tracer       trace.TracerProvider // nil = no traces
	Logger       *slog.Logger         // nil = slog.Default()

	open func(cell.Config) (*cell.Cell, error) // nil = cell.Open; tests have slow ones
}

// Defaults of Config.
const (
	DefaultCacheBytes = 64 << 20
	// DefaultMaxCells bounds what open namespaces cost: each has a log, a store, a
	// view and their goroutines.
	DefaultMaxCells = 1000
)

// leaveLimit is how long a closing namespace waits for its requests to end. A
// cell answers those that are left with errors.
const leaveLimit = 10 * time.Second

// Host is a process's cells.
//
// A namespace is in cells while it may be used, and in changing while it is
// opened or closed; in both never. mu is held for moments, so that no namespace
// waits for another's disk.
type Host struct {
	cfg    Config
	shared *state.Shared

	mu       sync.RWMutex // guards what follows
	cells    map[tenancy.NamespaceID]*tenant
	changing map[tenancy.NamespaceID]*change
	closed   bool
}

// tenant is one namespace's open cell and its waiting polls.
type tenant struct {
	cell   *cell.Cell
	lot    *lot
	visits visits
}

// change is the opening or closing of a namespace.
type change struct {
	opens bool
	done  chan struct{} // closed at its end
	err   error         // what came of it, once done
}

// Open makes a host without cells. What an earlier run had begun to delete is
// deleted.
func Open(cfg Config) (*Host, error) {
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = DefaultCacheBytes
	}
	if cfg.MaxCells == 0 {
		cfg.MaxCells = DefaultMaxCells
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.open == nil {
		cfg.open = cell.Open
	}
	h := &Host{
		cfg:      cfg,
		cells:    make(map[tenancy.NamespaceID]*tenant),
		changing: make(map[tenancy.NamespaceID]*change),
	}
	if err := h.empty(""); err != nil {
		return nil, fmt.Errorf("delete what earlier deletions left: %w", err)
	}
	h.shared = state.NewShared(cfg.CacheBytes)
	return h, nil
}

// Add opens the cell of a namespace and waits until it takes writes. Others are
// not delayed by it; who adds a namespace that is being opened shares the
// outcome.
func (h *Host) Add(ctx context.Context, ns tenancy.NamespaceID) error {
	if err := checkID(ns); err != nil {
		return err
	}
	c, mine, err := h.begin(ctx, ns, true)
	if err != nil {
		return err
	}
	if !mine {
		return c.wait(ctx)
	}
	t, err := h.open(ctx, ns)
	h.end(ns, c, t, err)
	return err
}

// begin registers a change of a namespace, after the one under way if that goes
// the other way; one that goes the same way is joined, and not the caller's.
func (h *Host) begin(ctx context.Context, ns tenancy.NamespaceID, opens bool) (c *change, mine bool, err error) {
	for {
		c, mine, err := h.tryBegin(ns, opens)
		if err != nil || mine || c.opens == opens {
			return c, mine, err
		}
		if err := c.await(ctx); err != nil {
			return nil, false, err
		}
	}
}

func (h *Host) tryBegin(ns tenancy.NamespaceID, opens bool) (c *change, mine bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.changing[ns]; c != nil {
		return c, false, nil
	}
	switch _, open := h.cells[ns]; {
	case h.closed:
		return nil, false, api.Errorf(api.LeaderUnavailable, "this host is shutting down")
	case opens && open:
		return nil, false, api.Errorf(api.Conflict, "namespace %s is open already", ns)
	case opens && len(h.cells)+len(h.changing) >= h.cfg.MaxCells:
		return nil, false, api.Errorf(api.Overloaded, "this host has %d namespaces open, which is the most: place %s on another, or raise the bound", h.cfg.MaxCells, ns)
	}
	c = &change{opens: opens, done: make(chan struct{})}
	h.changing[ns] = c
	return c, true, nil
}

// end publishes what came of a change.
func (h *Host) end(ns tenancy.NamespaceID, c *change, t *tenant, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.changing, ns)
	if t != nil {
		h.cells[ns] = t
	}
	c.err = err
	close(c.done)
}

// await waits for the end of a change, whatever comes of it.
func (c *change) await(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait is await and what came of it.
func (c *change) wait(ctx context.Context) error {
	if err := c.await(ctx); err != nil {
		return err
	}
	return c.err
}

func (h *Host) open(ctx context.Context, ns tenancy.NamespaceID) (*tenant, error) {
	waiting := newLot()
	c, err := h.cfg.open(cell.Config{
		Dir:           filepath.Join(h.dir(ns), "0"),
		Group:         string(ns) + "/0",
		NodeID:        h.cfg.NodeID,
		Shared:        h.shared,
		OnReady:       waiting.wake,
		SnapshotBytes: h.cfg.SnapshotBytes,
		SegmentBytes:  h.cfg.SegmentBytes,
		Receiver:      h.cfg.Receiver,
		Tracer:        h.cfg.Tracer,
		Logger:        h.cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", ns, err)
	}
	if err := c.Ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open namespace %s: %w", ns, err), c.Close(context.WithoutCancel(ctx)))
	}
	return &tenant{cell: c, lot: waiting}, nil
}

// Namespaces are those that are open, sorted.
func (h *Host) Namespaces() []tenancy.NamespaceID {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Sorted(maps.Keys(h.cells))
}

// Cell is the open cell of a namespace. Who uses it for longer than a look is a
// visitor: see Visit.
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
	return h.find(ns)
}

// find is tenant for who holds mu.
func (h *Host) find(ns tenancy.NamespaceID) (*tenant, error) {
	t, ok := h.cells[ns]
	if !ok {
		return nil, notOpen()
	}
	return t, nil
}

// notOpen is retryable: who knows the namespace's key knows that there is one. It
// is being opened, or has gone elsewhere.
func notOpen() error {
	err := api.Errorf(api.LeaderUnavailable, "the namespace is not open on this host now: nothing was done, try again")
	err.RetryAfter = time.Second
	return err
}

// Park waits until one of the queues has a job that a fetch may claim, and
// returns nil; or until ctx ends, and returns its error. It returns at once when
// there is one already. The caller must follow a nil with Claim: it may be the
// only poll that was woken for that job.
//
// check says whether the poll may still wait: it is called once the poll is
// parked, and at every Recheck of its namespace; its error ends the poll. So does
// the closing of the namespace, with a retryable error.
func (h *Host) Park(ctx context.Context, ns tenancy.NamespaceID, queues []string, check func() error) error {
	t, err := h.tenant(ns)
	if err != nil {
		return err
	}
	return t.lot.park(ctx, queues, t.cell.Claimable, check)
}

// Recheck has every poll that waits in a namespace ask again whether it may.
func (h *Host) Recheck(ns tenancy.NamespaceID) {
	if t, err := h.tenant(ns); err == nil {
		t.lot.recheck()
	}
}

// Polls are the figures of waiting polls.
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

// Close closes every cell and gives the shared caches back, after the openings
// and closings under way. Nothing is opened any more.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	changing := slices.Collect(maps.Values(h.changing))
	h.mu.Unlock()
	for _, c := range changing {
		<-c.done
	}
	h.mu.Lock()
	cells := maps.Clone(h.cells)
	clear(h.cells)
	h.mu.Unlock()

	errs := make(chan error, len(cells))
	for ns, t := range cells {
		go func() { errs <- h.shut(ctx, ns, t) }()
	}
	var all []error
	for range cells {
		all = append(all, <-errs)
	}
	h.shared.Close()
	return errors.Join(all...)
}
