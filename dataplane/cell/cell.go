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
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/dataplane/duties"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"

	"go.opentelemetry.io/otel/trace"
)

// DefaultFeedKeep is how many events readers of the feed may lie behind.
const DefaultFeedKeep = 100_000

// Config says where a cell lives and whom it tells.
type Config struct {
	Dir    string // holds raft/, state/ and view/
	Group  string // the raft group's name, for ever: "<namespace>/<shard>"
	Shard  uint32 // the shard's number, the last part of Group
	NodeID string // this member's name in the group

	// Shared are the host's caches; nil gives the cell small ones of its own.
	Shared *state.Shared
	// OnReady is called when a queue has jobs that a waiting poll may claim. It
	// is called by the applying goroutine and must not block.
	OnReady func(queue string, claimable int)
	// OnKeys is called when API keys have changed, under the same conditions; nil =
	// nobody asks.
	OnKeys func()
	// Known is the highest feature level that every member of every shard knows,
	// once all have been heard of; nil = there is no other member.
	Known func() (level uint32, ok bool)
	// Shards are all shards of the namespace, this one among them: what this one
	// sends to others goes there. nil = there is no other.
	Shards sinks.Shards
	// Join makes a new cell a future member of a group that exists; nil = it founds
	// one. See engine.Config.
	Join *entry.Incarnation
	// Engine is how the group is run.
	Engine engine.Tuning
	// FeedKeep is how many events readers of the feed may lie behind; 0 =
	// DefaultFeedKeep.
	FeedKeep uint64
	// FeedBytes is how much of the feed is kept for a view that is behind; 0 =
	// job.MaxFeedBytes.
	FeedBytes uint64
	// ViewLagLimit is the age of the view from which on enqueues and fetches are
	// refused, so that it catches up; 0 = the view never slows them.
	ViewLagLimit time.Duration
	// UsageKeep is how many usage rows are kept that nobody is owed; 0 =
	// job.MaxUsageRows.
	UsageKeep uint64
	// Retention is how long the namespace keeps settled jobs whose queues say nothing;
	// 0 = as it was set before.
	Retention time.Duration
	// Measure is what an alert rule looks at, over the whole namespace: this is its
	// home shard, whose leader looks after its alert rules and webhooks. nil = it is
	// not.
	Measure  func(ctx context.Context, r *state.AlertRule) (float64, error)
	Webhooks Webhooks
	// OnFeed is called when the feed has grown; it must not block. nil = it is not.
	OnFeed func()
	// Receiver gets the usage of the shard; nil = nobody does.
	Receiver sinks.Receiver
	Tracer   trace.TracerProvider // nil = no traces
	Logger   *slog.Logger
}

// Webhooks is how webhooks are called.
type Webhooks struct {
	Private   bool              // private addresses may be: see sinks.WebhooksConfig
	Transport http.RoundTripper // nil = one that keeps to Private
}

// Cell is an open shard member. Its methods may be called by any goroutine.
type Cell struct {
	cfg    Config
	store  *state.Store
	view   *view.View
	duties *duties.Duties
	usage  *sinks.Usage  // nil without a receiver
	outbox *sinks.Outbox // nil without other shards
	bulks  *duties.Bulks
	hooks  *sinks.Webhooks // nil on other shards than the home shard
	group  *engine.Group
	// machine is asked for the feature level that is in force.
	machine *op.Machine
	claims  claims
	slowed  atomic.Uint64 // ops that admit refused

	stop    context.CancelFunc // ends what runs while the cell leads
	running sync.WaitGroup
	failure atomic.Pointer[error] // the first thing that made the cell unhealthy
}

// open opens the parts of a cell in their order, and closes them if one fails.
func open(cfg Config) (_ *Cell, err error) {
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

	if err := c.background(); err != nil {
		return nil, err
	}
	if c.view, err = view.Open(filepath.Join(cfg.Dir, "view"), c.store, view.Options{Logger: cfg.Logger}); err != nil {
		return nil, fmt.Errorf("open the view of %s: %w", cfg.Group, err)
	}
	opened = append(opened, c.view.Close)

	c.store.SetHooks(state.Hooks{
		OnReady: c.onReady,
		OnTimer: c.onTimer,

		OnReplenish: c.duties.OnReplenish,
		OnRetention: c.duties.OnRetention,
		OnClearing:  c.duties.OnClearing,
		OnGate:      c.duties.OnGate,
		OnBulk:      c.bulks.OnBulk,

		OnFeed:  c.onFeed,
		OnUsage: c.onUsage,
		OnAudit: func() { c.view.Notify(); c.duties.OnAudit() },
		OnKeys: func() {
			c.view.Notify()
			if cfg.OnKeys != nil {
				cfg.OnKeys()
			}
		},

		OnResources: c.duties.OnResources,
		OnOutbox: func() {
			if c.outbox != nil {
				c.outbox.OnOutbox()
			}
		},
	})
	c.machine = op.NewMachine(c.store)
	if err := c.machine.CheckLevel(); err != nil {
		return nil, fmt.Errorf("open the store of %s: %w", cfg.Group, err)
	}
	c.group, err = engine.Open(engine.Config{
		Dir:       filepath.Join(cfg.Dir, "raft"),
		Group:     cfg.Group,
		NodeID:    cfg.NodeID,
		Machine:   c.machine,
		Level:     c.machine.Level,
		Codec:     op.Codec{},
		Admit:     c.admission(),
		StartTerm: func() pipeline.Op { return &op.StartTerm{Meta: &op.Meta{Principal: "engine"}} },
		Join:      cfg.Join,
		Tuning:    cfg.Engine,
		Tracer:    cfg.Tracer,
		Logger:    cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open the group %s: %w", cfg.Group, err)
	}
	c.start()
	return c, nil
}

// background makes what runs while the cell leads.
func (c *Cell) background() error {
	prices, err := op.ShippedPrices()
	if err != nil {
		return err
	}
	of := duties.Config{
		Store:     c.store,
		Propose:   func(ctx context.Context, o pipeline.Op) error { _, _, err := Propose[any](ctx, c, o); return err },
		NowNs:     func() int64 { return c.group.ClockNs() },
		ViewSeq:   func() uint64 { seq, _ := c.view.Cursor(); return seq },
		FeedKeep:  cmp.Or(c.cfg.FeedKeep, DefaultFeedKeep),
		FeedBytes: c.cfg.FeedBytes,
		UsageKeep: cmp.Or(c.cfg.UsageKeep, job.MaxUsageRows),
		Prices:    prices,
		JobIDs:    c.jobIDs,
		Logger:    c.cfg.Logger,
	}
	namespace, _, _ := strings.Cut(c.cfg.Group, "/")
	if c.cfg.Shards != nil {
		c.outbox = sinks.NewOutbox(sinks.OutboxConfig{Store: c.store, Namespace: namespace, Shards: c.cfg.Shards, Logger: c.cfg.Logger})
	}
	if c.cfg.Receiver != nil {
		c.usage = sinks.NewUsage(sinks.UsageConfig{
			Store:     c.store,
			Namespace: namespace,
			Stream:    fmt.Sprintf("shard/%d", c.cfg.Shard),
			Receiver:  c.cfg.Receiver,
			OnAcked:   func() { c.duties.OnUsage() },
			Logger:    c.cfg.Logger,
		})
		of.UsageAcked = c.usage.Acked
	}
	if c.cfg.Measure != nil {
		c.watch(&of, namespace)
	}
	c.duties = duties.New(of)
	c.bulks = c.newBulks()
	return nil
}

// watch makes what looks after alert rules and webhooks.
func (c *Cell) watch(of *duties.Config, namespace string) {
	of.Measure, of.NewID = c.cfg.Measure, func() job.ID { return c.NewID("") }
	of.SetAlerts = func(ctx context.Context, o *op.SetAlerts) (*op.SetAlertsResult, error) {
		result, _, err := Propose[*op.SetAlertsResult](ctx, c, o)
		return result, err
	}
	c.hooks = sinks.NewWebhooks(sinks.WebhooksConfig{
		Store:     c.store,
		Namespace: namespace,
		Report: func(ctx context.Context, o *op.ReportDeliveries) error {
			_, _, err := Propose[any](ctx, c, o)
			return err
		},
		NowNs:     of.NowNs,
		Private:   c.cfg.Webhooks.Private,
		Transport: c.cfg.Webhooks.Transport,
		Logger:    c.cfg.Logger,
	})
}

// onTimer is the store's hook: timers were set.
func (c *Cell) onTimer(class state.TimerClass, dueNs int64) {
	c.duties.OnTimer(class, dueNs)
	if class == state.TimerDelivery && c.hooks != nil {
		c.hooks.OnDelivery()
	}
}

// jobIDs finds jobs of a queue for the duties: in the view, once it has all that is
// applied.
func (c *Cell) jobIDs(ctx context.Context, queue string, states []job.State, below uint64, limit int) ([]job.ID, error) {
	if err := c.view.Wait(ctx, uint64(c.Applied())); err != nil {
		return nil, err
	}
	return c.view.JobIDs(ctx, queue, states, below, limit)
}

// onFeed is the store's hook: the feed has grown.
func (c *Cell) onFeed() {
	c.view.Notify()
	c.duties.OnFeed()
	if c.cfg.OnFeed != nil {
		c.cfg.OnFeed()
	}
}

// onUsage is the store's hook: there are new usage rows.
func (c *Cell) onUsage() {
	c.duties.OnUsage()
	if c.usage != nil {
		c.usage.OnUsage()
	}
}

// start runs the duties and the sinks whenever the cell leads: what they propose
// is for one member to propose, and what they send for one to send.
func (c *Cell) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.running.Go(func() {
		err := c.group.Lead(ctx, c.lead)
		if err == nil || ctx.Err() != nil {
			return
		}
		// A group that has failed says so itself.
		if c.group.Err() == nil {
			c.fail(fmt.Errorf("what its leader does has stopped: %w", err))
		}
	})
}

// lead is what a leader does besides answering, until its leadership ends.
func (c *Cell) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	if c.usage != nil {
		beside.Go(func() { c.usage.Run(ctx) })
	}
	if c.outbox != nil {
		beside.Go(func() { c.outbox.Run(ctx) })
	}
	if c.hooks != nil {
		beside.Go(func() { c.hooks.Run(ctx) })
	}
	beside.Go(func() {
		if err := c.bulks.Run(ctx); err != nil {
			c.fail(err)
		}
	})
	beside.Go(func() { c.raiseLevel(ctx) })
	beside.Go(func() { c.applySettings(ctx) })
	return c.duties.Run(ctx)
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

// Propose commits one op and returns its result and where it stands in the log. An
// op that the feature level in force does not have yet is refused.
func Propose[R any](ctx context.Context, c *Cell, o pipeline.Op) (R, Index, error) {
	return ProposeWithin[R](ctx, 0, c, o)
}

// ProposeWithin is Propose that gives up after a time; 0 = never.
func ProposeWithin[R any](ctx context.Context, limit time.Duration, c *Cell, o pipeline.Op) (R, Index, error) {
	if of, ok := o.(op.Op); ok {
		if err := op.Admit(of, c.machine.Level()); err != nil {
			var none R
			return none, 0, err
		}
	}
	result, position, err := engine.ProposeWithin[R](ctx, limit, c.group, o)
	return result, Index(position.Index), err
}

// Level is the feature level in force.
func (c *Cell) Level() uint32 { return c.machine.Level() }

// Shard is the shard's number.
func (c *Cell) Shard() uint32 { return c.cfg.Shard }

// Ready waits until the cell takes writes.
func (c *Cell) Ready(ctx context.Context) error { return c.group.Ready(ctx) }

// Verify returns once every write acknowledged before the call, by whichever
// leader, is applied here.
func (c *Cell) Verify(ctx context.Context) error { return c.group.Verify(ctx) }

// Leader says whether this member leads its group.
func (c *Cell) Leader() bool { return c.group.Leader() }

// Led says whether this member leads its group or knows who does.
func (c *Cell) Led() bool { return c.group.Leader() || c.group.LeaderID() != "" }

// Applied is the index of the last entry in the store.
func (c *Cell) Applied() Index { return Index(c.store.Applied().Index) }

// Engine is the cell's Raft group: its membership is changed there.
func (c *Cell) Engine() *engine.Group { return c.group }

// State is the store, for reading.
func (c *Cell) State() *state.Store { return c.store }

// View is the read model.
func (c *Cell) View() *view.View { return c.view }
