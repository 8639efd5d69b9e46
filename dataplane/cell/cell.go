// Package cell is one member of one shard on one host: the raft group, the store
// it changes, the view that follows, the duties and the usage sink of its leader,
// opened and closed as one. It decides nothing about jobs (op does) and knows
// neither HTTP nor which namespace's requests are whose.
package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/dataplane/duties"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/pipeline"

	"go.opentelemetry.io/otel/trace"
)

// Defaults of what is kept.
const (
	// DefaultFeedKeep is how many events readers of the feed may lie behind.
	DefaultFeedKeep = 100_000
	// DefaultUsageKeep is how many usage rows are kept where nobody receives them.
	DefaultUsageKeep = 100_000
	// DefaultAckedUsageKeep is how many rows that their receiver has are kept, to be
	// looked at. Those it does not have are all kept.
	DefaultAckedUsageKeep = 10_000
)

// Config says where a cell lives and whom it tells.
type Config struct {
	Dir    string // holds raft/, state/ and view/
	Group  string // the raft group's name, for ever: "<namespace>/<shard>"
	NodeID string // this member's name in the group

	// Shared are the host's caches; nil gives the cell small ones of its own.
	Shared *state.Shared
	// OnReady is called when a queue has jobs that a waiting poll may claim. It
	// is called by the applying goroutine and must not block.
	OnReady func(queue string, claimable int)
	// SnapshotBytes is how much log gathers before it is cut; 0 = the engine's
	// default.
	SnapshotBytes int64
	// SegmentBytes is the size of the log's files, of which one is preallocated; 0 =
	// raftlog's default.
	SegmentBytes int
	// FeedKeep is how many events readers of the feed may lie behind; 0 =
	// DefaultFeedKeep.
	FeedKeep uint64
	// UsageKeep is how many usage rows are kept that nobody is owed; 0 =
	// DefaultAckedUsageKeep with a Receiver, DefaultUsageKeep without.
	UsageKeep uint64
	// Receiver gets the usage of the shard; nil = nobody does.
	Receiver sinks.Receiver
	Tracer   trace.TracerProvider // nil = no traces
	Logger   *slog.Logger
}

// Cell is an open shard member. Its methods may be called by any goroutine.
type Cell struct {
	cfg    Config
	store  *state.Store
	view   *view.View
	duties *duties.Duties
	usage  *sinks.Usage // nil without a receiver
	group  *engine.Group
	claims claims

	stop    context.CancelFunc // ends the duties and the sink
	running sync.WaitGroup
	failure atomic.Pointer[error] // the first thing that made the cell unhealthy
}

// Open opens the cell in cfg.Dir, creating it as the sole member of a new group
// where there is none. When it returns without an error the cell is being
// elected; Ready waits for that.
func Open(cfg Config) (_ *Cell, err error) {
	c := &Cell{cfg: cfg}
	var opened []func() error
	defer func() {
		if err == nil {
			return
		}
		for i := len(opened) - 1; i >= 0; i-- {
			err = errors.Join(err, opened[i]())
		}
	}()

	if c.store, err = state.Open(filepath.Join(cfg.Dir, "state"), state.Options{Shared: cfg.Shared}); err != nil {
		return nil, fmt.Errorf("open the store of %s: %w", cfg.Group, err)
	}
	opened = append(opened, c.store.Close)

	c.background()
	if c.view, err = view.Open(filepath.Join(cfg.Dir, "view"), c.store, view.Options{Logger: cfg.Logger}); err != nil {
		return nil, fmt.Errorf("open the view of %s: %w", cfg.Group, err)
	}
	opened = append(opened, c.view.Close)

	c.store.SetHooks(state.Hooks{
		OnReady: c.onReady,
		OnTimer: c.duties.OnTimer,
		OnFeed:  func() { c.view.Notify(); c.duties.OnFeed() },
		OnUsage: c.onUsage,
	})
	c.group, err = engine.Open(engine.Config{
		Dir:           filepath.Join(cfg.Dir, "raft"),
		Group:         cfg.Group,
		NodeID:        cfg.NodeID,
		Machine:       op.NewMachine(c.store),
		StartTerm:     func() pipeline.Op { return &op.StartTerm{Meta: &op.Meta{Principal: "engine"}} },
		SnapshotBytes: cfg.SnapshotBytes,
		SegmentBytes:  cfg.SegmentBytes,
		Tracer:        cfg.Tracer,
		Logger:        cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open the group %s: %w", cfg.Group, err)
	}
	c.start()
	return c, nil
}

// background makes what runs while the cell leads.
func (c *Cell) background() {
	of := duties.Config{
		Store:     c.store,
		Propose:   func(ctx context.Context, o pipeline.Op) error { _, _, err := Propose[any](ctx, c, o); return err },
		NowNs:     func() int64 { return c.group.ClockNs() },
		ViewSeq:   func() uint64 { seq, _ := c.view.Cursor(); return seq },
		FeedKeep:  cmp.Or(c.cfg.FeedKeep, DefaultFeedKeep),
		UsageKeep: cmp.Or(c.cfg.UsageKeep, DefaultUsageKeep),
		Logger:    c.cfg.Logger,
	}
	if c.cfg.Receiver != nil {
		namespace, shard, _ := strings.Cut(c.cfg.Group, "/")
		c.usage = sinks.NewUsage(sinks.UsageConfig{
			Store:     c.store,
			Namespace: namespace,
			Stream:    "shard/" + shard,
			Receiver:  c.cfg.Receiver,
			OnAcked:   func() { c.duties.OnUsage() },
			Logger:    c.cfg.Logger,
		})
		of.UsageKeep = cmp.Or(c.cfg.UsageKeep, DefaultAckedUsageKeep)
		of.UsageAcked = c.usage.Acked
	}
	c.duties = duties.New(of)
}

// onUsage is the store's hook: there are new usage rows.
func (c *Cell) onUsage() {
	c.duties.OnUsage()
	if c.usage != nil {
		c.usage.OnUsage()
	}
}

// start runs the duties and the sink once the cell leads.
func (c *Cell) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.running.Go(func() {
		if err := c.group.Ready(ctx); err != nil {
			if ctx.Err() == nil {
				c.fail(fmt.Errorf("no leadership: %w", err))
			}
			return
		}
		if c.usage != nil {
			c.running.Go(func() { c.usage.Run(ctx) })
		}
		if err := c.duties.Run(ctx); err != nil {
			c.fail(fmt.Errorf("the duties stopped: %w", err))
		}
	})
}

func (c *Cell) fail(err error) {
	if c.failure.CompareAndSwap(nil, &err) {
		c.cfg.Logger.Error("a cell is unhealthy", "group", c.cfg.Group, "error", err)
	}
}

// Close ends the cell in order: no new proposals, those under way finish, the
// store is flushed, everything is closed. It may be called once.
func (c *Cell) Close(ctx context.Context) error {
	c.stop()
	c.running.Wait()
	return errors.Join(c.group.Close(ctx), c.view.Close(), c.store.Close())
}

// SettleUsage returns when the receiver has all usage of the shard, which must take
// no more writes: before its data is deleted. Without a receiver nobody is owed
// anything.
func (c *Cell) SettleUsage(ctx context.Context) error {
	if c.usage == nil {
		return nil
	}
	return c.usage.Settle(ctx)
}

// UsageOwed is how many usage rows the receiver is not known to have. It may be
// asked after Close.
func (c *Cell) UsageOwed() uint64 {
	if c.usage == nil {
		return 0
	}
	return c.usage.Owed()
}

// Index is a position in the shard's log: what a write answers and a read may
// wait for.
type Index uint64

// Propose commits one op and returns its result and where it stands in the log.
func Propose[R any](ctx context.Context, c *Cell, o pipeline.Op) (R, Index, error) {
	result, position, err := engine.Propose[R](ctx, c.group, o)
	return result, Index(position.Index), err
}

// Ready waits until the cell takes writes.
func (c *Cell) Ready(ctx context.Context) error { return c.group.Ready(ctx) }

// Verify returns once every write acknowledged before the call, by whichever
// leader, is applied here.
func (c *Cell) Verify(ctx context.Context) error { return c.group.Verify(ctx) }

// Leader says whether this member leads its group.
func (c *Cell) Leader() bool { return c.group.Leader() }

// Applied is the index of the last entry in the store.
func (c *Cell) Applied() Index { return Index(c.store.Applied().Index) }

// State is the store, for reading.
func (c *Cell) State() *state.Store { return c.store }

// View is the read model.
func (c *Cell) View() *view.View { return c.view }
