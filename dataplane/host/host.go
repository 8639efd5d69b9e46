// Package host owns the cells of a data-plane process: it opens and closes them, deletes their data, shares
// caches between them, and parks polls (waiting fetches) outside the cells. It knows neither HTTP nor keys;
// its callers have authenticated the client and know which namespace it may name.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"

	"go.opentelemetry.io/otel/trace"
)

// Config holds the parameters of Open.
type Config struct {
	DataDir    string // cells live in <DataDir>/ns/<namespace>/<shard>
	NodeID     string // the name of the cells here in their groups; on a host of the cloud the store's id
	CacheBytes int64  // block cache shared by all stores; 0 = DefaultCacheBytes
	MaxCells   int    // open at once; 0 = DefaultMaxCells
	// When a cell is opened, Adopt changes its node name to NodeID if the old name is not the id of a store
	// (see IsStore). With or without Adopt, the cells of another store are refused.
	Adopt bool
	// Known returns the highest feature level that all members of a cluster support: see cell.Config. nil =
	// each shard's leader learns the level from its members.
	Known func() (level uint32, ok bool)
	// Members returns the newest list of members of a namespace's groups, or nil, and a channel that is closed when
	// there may be a newer one: see cell.Config. nil = no group gets a list.
	Members func(tenancy.NamespaceID) (newest *state.Members, changed <-chan struct{})
	// Peers reports whether a store may send to the groups of a namespace here: see cell.Config. nil = every node that
	// the transport's Identity trusts may.
	Peers func(ns tenancy.NamespaceID, store string) bool
	// StartsHeld reports whether no job of a namespace may start now: fetches then wait as if the queues were empty, and
	// leaders refuse to propose them. Once it reports false again, the caller calls StartsResume. It must not block. nil =
	// jobs always start.
	StartsHeld func(tenancy.NamespaceID) bool
	// OnChange is called after a change of what cell.Membership returns of any cell: see cell.Config. nil is not called.
	OnChange func()
	// Engine holds the settings of the groups of all cells.
	Engine engine.Tuning
	// Retention is how long namespaces keep settled jobs: see cell.Config.
	Retention time.Duration
	// FeedBytes and ViewLagLimit bound the cost of a view that is behind: see cell.Config.
	FeedBytes    uint64
	ViewLagLimit time.Duration
	// Webhooks sets how webhooks are called.
	Webhooks cell.Webhooks
	Receiver sinks.Receiver       // receives the usage of all cells; nil = usage is not delivered
	Tracer   trace.TracerProvider // nil = no traces
	Logger   *slog.Logger         // nil = slog.Default()

	open func(cell.Config) (*cell.Cell, error) // nil = cell.Open; tests pass slow and failing ones
}

// Defaults of Config.
const (
	DefaultCacheBytes = 96 << 20
	// DefaultMaxCells bounds the cost of open namespaces: each of their shards has a log, a store, a view and
	// goroutines.
	DefaultMaxCells = 1000
)

// leaveLimit is how long a closing namespace waits for its requests to end. After that the cells close, and
// answer the remaining requests with errors.
const leaveLimit = 10 * time.Second

// Host owns the cells of a process.
//
// A namespace is in cells while it may be used, and in changing while it is opened or closed. It is in both
// only for the moment between the start of its closing and its removal from cells. mu is held for moments, so
// that no namespace waits for another's disk.
type Host struct {
	cfg    Config
	shared *state.Shared

	streams atomic.Int64 // registered followers of events, of all namespaces

	mu       sync.RWMutex // guards the fields below
	cells    map[tenancy.NamespaceID]*tenant
	changing map[tenancy.NamespaceID]*change
	closed   bool
}

// tenant is an open namespace: its cells by shard, its parked polls and the workers that it has seen.
type tenant struct {
	cells   []*cell.Cell
	polls   *waitingPolls
	visits  visits
	workers Workers

	followers followers
}

// change is the opening or closing of a namespace.
type change struct {
	opens bool
	cells int           // the cells that count against MaxCells; Host.mu guards it
	done  chan struct{} // closed at its end
	err   error         // the outcome, once done is closed
}

// Open creates a host without cells and finishes the deletions that an earlier run began.
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
	if err := errors.Join(h.forgetTrash(), h.empty("")); err != nil {
		return nil, fmt.Errorf("delete what earlier deletions left: %w", err)
	}
	h.shared = state.NewShared(cfg.CacheBytes)
	return h, nil
}

// Add opens the cells of a namespace, one for each shard; Ready waits until they take writes. If the
// namespace is being opened already, Add waits and shares the outcome. It refuses an open namespace with
// CONFLICT, and an opening beyond MaxCells with OVERLOADED.
func (h *Host) Add(ctx context.Context, ns tenancy.NamespaceID, spec Spec) error {
	if err := errors.Join(checkID(ns), spec.check(ns)); err != nil {
		return err
	}
	c, mine, err := h.begin(ctx, ns, true)
	if err != nil {
		return err
	}
	if !mine {
		return c.wait(ctx)
	}
	t, err := h.open(ctx, ns, spec, c)
	h.end(ns, c, t, err)
	return err
}

// Ready waits until all shards of an open namespace take writes here, or ctx ends.
func (h *Host) Ready(ctx context.Context, ns tenancy.NamespaceID) error {
	t, err := h.tenant(ns)
	if err != nil {
		return err
	}
	return t.ready(ctx, ns)
}

func (t *tenant) ready(ctx context.Context, ns tenancy.NamespaceID) error {
	for _, c := range t.cells {
		if err := c.Ready(ctx); err != nil {
			return fmt.Errorf("shard %d of namespace %s takes no writes: %w", c.Shard(), ns, err)
		}
	}
	return nil
}

// begin registers the opening or closing of a namespace. If a change in the other direction is under way,
// begin waits for its end first. If one in the same direction is under way, begin returns that one, and mine
// is false.
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
	}
	c = &change{opens: opens, done: make(chan struct{})}
	if opens {
		if err := h.reserve(ns, c, 1); err != nil {
			return nil, false, err
		}
	} else if t := h.cells[ns]; t != nil {
		c.cells = len(t.cells)
	}
	h.changing[ns] = c
	return c, true, nil
}

// reserve sets the number of cells that a change will have open. It refuses the change with OVERLOADED if the
// host would have more than MaxCells open. The caller holds mu.
func (h *Host) reserve(ns tenancy.NamespaceID, c *change, cells int) error {
	open := cells
	for _, t := range h.cells {
		open += len(t.cells)
	}
	for _, other := range h.changing {
		if other != c {
			open += other.cells
		}
	}
	if open > h.cfg.MaxCells {
		return api.Errorf(api.Overloaded, "with the %d shards of namespace %s this host would have %d open, the most is %d: place it on another, or raise the bound", cells, ns, open, h.cfg.MaxCells)
	}
	c.cells = cells
	return nil
}

// end publishes the outcome of a change.
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

// await waits for the end of a change and ignores its outcome.
func (c *change) await(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait waits for the end of a change and returns its outcome.
func (c *change) wait(ctx context.Context) error {
	if err := c.await(ctx); err != nil {
		return err
	}
	return c.err
}

// open opens all cells of a namespace, or none.
func (h *Host) open(ctx context.Context, ns tenancy.NamespaceID, spec Spec, of *change) (*tenant, error) {
	if err := engine.CheckSpace(h.cfg.DataDir); err != nil {
		return nil, err
	}
	spec, found, err := h.settleShards(ns, spec)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	err = h.reserve(ns, of, spec.Shards)
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !found.Complete {
		if err := writeFounding(h.dir(ns), found); err != nil {
			return nil, fmt.Errorf("record the shards of namespace %s: %w", ns, err)
		}
	}
	t := &tenant{polls: newWaitingPolls(), cells: make([]*cell.Cell, 0, spec.Shards)}
	shards := newShardProposers(spec.Shards)
	for shard := range spec.Shards {
		c, err := h.cfg.open(h.cellConfig(ns, shard, spec, t, shards))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open shard %d of namespace %s: %w", shard, ns, err), t.close(context.WithoutCancel(ctx), ns))
		}
		t.cells = append(t.cells, c)
		shards.connect(c)
	}
	if err := h.complete(found); err != nil {
		return nil, errors.Join(fmt.Errorf("record that namespace %s is open: %w", ns, err), t.close(context.WithoutCancel(ctx), ns))
	}
	return t, nil
}

func (h *Host) cellConfig(ns tenancy.NamespaceID, shard int, spec Spec, t *tenant, to *shardProposers) cell.Config {
	c := cell.Config{
		Dir:       filepath.Join(h.dir(ns), strconv.Itoa(shard)),
		Group:     groupName(ns, shard),
		Shard:     uint32(shard),
		NodeID:    h.cfg.NodeID,
		Shared:    h.shared,
		OnReady:   t.polls.wake,
		OnFeed:    t.followers.notify,
		Known:     h.cfg.Known,
		OnChange:  h.cfg.OnChange,
		Engine:    h.cfg.Engine,
		Retention: h.cfg.Retention,

		FeedBytes: h.cfg.FeedBytes, ViewLagLimit: h.cfg.ViewLagLimit,

		Receiver: h.cfg.Receiver,
		Tracer:   h.cfg.Tracer,
		Logger:   h.cfg.Logger,
	}
	if h.cfg.Members != nil {
		c.Members = func() (*state.Members, <-chan struct{}) { return h.cfg.Members(ns) }
	}
	if h.cfg.Peers != nil {
		c.Peers = func(id string) bool { return h.cfg.Peers(ns, id) }
	}
	if h.cfg.StartsHeld != nil {
		c.StartsHeld = func() bool { return h.cfg.StartsHeld(ns) }
	}
	if h.cfg.Adopt {
		c.Rename = func(old string) bool { return !IsStore(old) }
	}
	if shard == homeShard {
		c.OnKeys = t.polls.recheckAll // because polls may wait with a removed key
		c.Webhooks = h.cfg.Webhooks
		c.Measure = func(ctx context.Context, r *state.AlertRule) (float64, error) { return t.measure(ctx, to, r) }
	}
	if spec.Shards > 1 {
		c.Shards = to
	}
	if spec.Join != nil {
		c.Join = &spec.Join[shard]
	}
	if spec.Incarnations != nil {
		c.Incarnation = &spec.Incarnations[shard]
	}
	return c
}

// groupName returns the name of the group of a shard.
func groupName(ns tenancy.NamespaceID, shard int) string { return fmt.Sprintf("%s/%d", ns, shard) }

// Namespaces returns the open namespaces, sorted.
func (h *Host) Namespaces() []tenancy.NamespaceID {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Sorted(maps.Keys(h.cells))
}

// Cells returns the open cells of a namespace, by shard; there is at least one. The caller must not change
// the slice, and calls Visit first if it uses the cells for longer than one read.
func (h *Host) Cells(ns tenancy.NamespaceID) ([]*cell.Cell, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return nil, err
	}
	return t.cells, nil
}

// Incarnations returns, by shard, the incarnations of the groups of an open namespace, also of groups that have not
// added this member yet.
func (h *Host) Incarnations(ns tenancy.NamespaceID) ([]entry.Incarnation, error) {
	cells, err := h.Cells(ns)
	all := make([]entry.Incarnation, 0, len(cells))
	for _, c := range cells {
		all = append(all, c.Engine().Incarnation())
	}
	return all, err
}

func (h *Host) tenant(ns tenancy.NamespaceID) (*tenant, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.find(ns)
}

// find returns an open namespace; the caller holds mu.
func (h *Host) find(ns tenancy.NamespaceID) (*tenant, error) {
	t, ok := h.cells[ns]
	if !ok {
		return nil, notOpen()
	}
	return t, nil
}

// notOpen returns a retryable error, because a client that has a key of the namespace knows that the
// namespace exists: the host is opening it, or it has moved to another host.
func notOpen() error {
	err := api.Errorf(api.LeaderUnavailable, "the namespace is not open on this host now: nothing was done, try again")
	err.RetryAfter = time.Second
	return err
}

// Park waits until one of the queues has a job that a fetch may claim, and returns nil, at once if there is
// one already. If ctx ends first, Park returns its error. After a nil the caller must call Claim, because it
// may hold the only poll that was woken for that job.
//
// check reports whether the poll may still wait. Park calls it once the poll is parked, and at every Recheck
// of the namespace; an error of check ends the poll. The closing of the namespace ends the poll too, with a
// retryable error.
func (h *Host) Park(ctx context.Context, ns tenancy.NamespaceID, queues []string, check func() error) error {
	t, err := h.tenant(ns)
	if err != nil {
		return err
	}
	return t.polls.park(ctx, queues, t.claimable, check)
}

// claimable reports whether any shard has a job of the queues that a fetch may claim. It need not know the
// shard of each queue, because a queue has jobs on its own shard only.
func (t *tenant) claimable(queues []string) bool {
	for _, c := range t.cells {
		if c.Claimable(queues) {
			return true
		}
	}
	return false
}

// Recheck makes the parked polls and the streams of a namespace check again whether they may continue.
func (h *Host) Recheck(ns tenancy.NamespaceID) {
	if t, err := h.tenant(ns); err == nil {
		t.polls.recheckAll()
	}
}

// Polls counts a namespace's polls.
type Polls struct {
	Parked  int    // waiting now
	Refused uint64 // refused since the namespace was opened, because MaxParked polls waited
}

// Polls returns the poll counts of a namespace.
func (h *Host) Polls(ns tenancy.NamespaceID) (Polls, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return Polls{}, err
	}
	return Polls{Parked: int(t.polls.count.Load()), Refused: t.polls.refused.Load()}, nil
}

// Close waits for the openings and closings under way, even after ctx has ended. Then it closes every cell
// and releases the shared caches. No namespace can be opened afterwards. Later calls return nil at once.
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
