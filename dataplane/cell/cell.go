// Package cell is one member of one shard on one host: the Raft group, the store that it changes, the view
// that follows it, and the duties and sinks of its leader, opened and closed together. It decides nothing
// about jobs (op does), and knows neither HTTP nor the mapping of requests to namespaces.
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

// DefaultFeedKeep is the default of Config.FeedKeep.
const DefaultFeedKeep = 100_000

// Config holds the parameters of Open.
type Config struct {
	Dir    string // holds raft/, state/ and view/
	Group  string // the Raft group's permanent name: "<namespace>/<shard>"
	Shard  uint32 // the shard's number, the last part of Group
	NodeID string // this member's name in the group

	// Rename reports whether a cell of the given node becomes one of NodeID: see engine.Config.
	Rename func(old string) bool

	// Shared holds the host's caches; nil gives the cell small ones of its own.
	Shared *state.Shared
	// OnReady is called when a queue has jobs that no fetch has claimed, with their number. It runs on the
	// applying goroutine, or on the goroutine of a request that releases a claim, and must not block.
	OnReady func(queue string, claimable int)
	// OnKeys is called on the applying goroutine when API keys have changed, and must not block; nil is not
	// called.
	OnKeys func()
	// Known returns the highest feature level that every member of every shard supports; ok is false until
	// all have reported. nil = the leader asks the members of this shard.
	Known func() (level uint32, ok bool)
	// MaxLevel is the highest feature level that this member takes; 0 = op.FeatureLevel. Tests of an upgrade set it.
	MaxLevel uint32
	// Members returns the newest list of members that the host knows for this shard's group, or nil, and a channel that
	// is closed when there may be a newer one. The leader proposes the list if it is newer than the group's. nil = the
	// group never gets a list.
	Members func() (newest *state.Members, changed <-chan struct{})
	// OnChange is called after a change of what Membership returns, under a lock of the group, so that it must
	// neither block nor call the cell; nil is not called.
	OnChange func()
	// StartsHeld reports whether no job may start now: see host.Config. nil = jobs start.
	StartsHeld func() bool
	// Shards provides all shards of the namespace, including this one, as the targets of its messages. nil =
	// there is no other.
	Shards sinks.Shards
	// Join makes a new cell a future member of an existing group; nil = the cell bootstraps one. See
	// engine.Config.
	Join *entry.Incarnation
	// Incarnation is the only incarnation that the cell may have, new or not; nil = any. See engine.Config.
	Incarnation *entry.Incarnation
	// Peers reports whether another node may send to this member: see engine.Config. nil = every node that the
	// transport's Identity trusts may.
	Peers func(id string) bool
	// Engine holds the settings of the group.
	Engine engine.Tuning
	// FeedKeep is how many events a reader of the feed may be behind; 0 = DefaultFeedKeep.
	FeedKeep uint64
	// FeedBytes bounds the part of the feed that is kept for a view that is behind; 0 = job.MaxFeedBytes.
	FeedBytes uint64
	// ViewLagLimit is the age of the view above which enqueues and fetches are refused, so that the view
	// catches up; 0 = they are never refused.
	ViewLagLimit time.Duration
	// UsageKeep is how many usage rows are kept although no receiver needs them any more; 0 =
	// job.MaxUsageRows.
	UsageKeep uint64
	// Retention is how long the namespace keeps settled jobs of queues without a retention; 0 = the previous
	// setting.
	Retention time.Duration
	// Measure computes the value of an alert rule over the whole namespace. It is set for the home shard,
	// whose leader evaluates the alert rules and calls the webhooks; nil for other shards.
	Measure  func(ctx context.Context, r *state.AlertRule) (float64, error)
	Webhooks Webhooks
	// OnFeed is called on the applying goroutine when the feed has grown, and must not block; nil is not
	// called.
	OnFeed func()
	// Receiver receives the shard's usage; nil = none does.
	Receiver sinks.Receiver
	Tracer   trace.TracerProvider // nil = no traces
	Logger   *slog.Logger
}

// Webhooks sets how webhooks are called.
type Webhooks struct {
	Private   bool              // allows private addresses: see sinks.WebhooksConfig
	Transport http.RoundTripper // nil = a transport that enforces Private
}

// Cell is an open shard member. Its methods may be called from any goroutine.
type Cell struct {
	cfg    Config
	store  *state.Store
	view   *view.View
	duties *duties.Duties
	usage  *sinks.Usage  // nil without a receiver
	outbox *sinks.Outbox // nil without other shards
	bulks  *duties.Bulks
	hooks  *sinks.Webhooks // nil except on the home shard
	group  *engine.Group
	// machine knows the feature level in force.
	machine     *op.Machine
	claims      claims
	lagRefusals atomic.Uint64 // ops that admit refused

	stop    context.CancelFunc // ends the leader's work
	running sync.WaitGroup
	failure atomic.Pointer[error] // the first error that made the cell unhealthy
}

// open opens the parts of a cell in order, and closes them if one fails.
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

	if err := c.newBackground(); err != nil {
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

		OnMeters: c.duties.OnMeters,
		OnAudit:  func() { c.view.Notify(); c.duties.OnAudit() },
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
	c.machine.MaxLevel = cmp.Or(cfg.MaxLevel, op.FeatureLevel)
	if err := c.machine.CheckLevel(); err != nil {
		return nil, fmt.Errorf("open the store of %s: %w", cfg.Group, err)
	}
	if err := c.openGroup(); err != nil {
		return nil, err
	}
	c.start()
	return c, nil
}

// openGroup opens the Raft group around the machine.
func (c *Cell) openGroup() (err error) {
	cfg := &c.cfg
	c.group, err = engine.Open(engine.Config{
		Dir:       filepath.Join(cfg.Dir, "raft"),
		Group:     cfg.Group,
		NodeID:    cfg.NodeID,
		Rename:    cfg.Rename,
		Machine:   c.machine,
		Level:     c.machine.Level,
		MaxLevel:  c.machine.MaxLevel,
		List:      c.members,
		View:      func() uint64 { return uint64(c.viewApplied()) },
		Peers:     cfg.Peers,
		OnChange:  cfg.OnChange,
		Codec:     op.NewCodec(),
		Admit:     c.admission(),
		StartTerm: func() pipeline.Op { return op.Proposal(&op.StartTerm{Meta: &op.Meta{Principal: "engine"}}) },
		Tuning:    cfg.Engine,
		Tracer:    cfg.Tracer,
		Logger:    cfg.Logger,

		Join:        cfg.Join,
		Incarnation: cfg.Incarnation,
	})
	if err != nil {
		return fmt.Errorf("open the group %s: %w", cfg.Group, err)
	}
	return nil
}

// newBackground creates the components that run while the cell leads.
func (c *Cell) newBackground() error {
	prices, err := op.ShippedPrices()
	if err != nil {
		return err
	}
	of := duties.Config{
		Store:     c.store,
		Propose:   func(ctx context.Context, o op.Op) error { _, _, err := Propose[any](ctx, c, o); return err },
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
			Clock:     c.claimClock,
			Logger:    c.cfg.Logger,
		})
		of.UsageAcked, of.StoredBytes = c.usage.Acked, c.store.StoredBytes
	}
	if c.cfg.Measure != nil {
		c.newWatchers(&of, namespace)
	}
	c.duties = duties.New(of)
	c.bulks = c.newBulks()
	return nil
}

// newWatchers configures the evaluation of alert rules and creates the webhook sink.
func (c *Cell) newWatchers(of *duties.Config, namespace string) {
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

// onTimer implements the store's hook for new timers.
func (c *Cell) onTimer(class state.TimerClass, dueNs int64) {
	c.duties.OnTimer(class, dueNs)
	if class == state.TimerDelivery && c.hooks != nil {
		c.hooks.OnDelivery()
	}
}

// jobIDs finds jobs of a queue for the duties, in the view, after the view has caught up with the store.
func (c *Cell) jobIDs(ctx context.Context, queue string, states []job.State, below uint64, limit int) ([]job.ID, error) {
	if err := c.view.Wait(ctx, uint64(c.Applied())); err != nil {
		return nil, err
	}
	return c.view.JobIDs(ctx, queue, states, below, limit)
}

// onFeed implements the store's hook for new events.
func (c *Cell) onFeed() {
	c.view.Notify()
	c.duties.OnFeed()
	if c.cfg.OnFeed != nil {
		c.cfg.OnFeed()
	}
}

// onUsage implements the store's hook for new usage rows.
func (c *Cell) onUsage() {
	c.duties.OnUsage()
	if c.usage != nil {
		c.usage.OnUsage()
	}
}

// start runs the duties and the sinks whenever the cell leads, because only one member may propose their ops
// and send their messages.
func (c *Cell) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.running.Go(func() {
		err := c.group.Lead(ctx, c.lead)
		if err == nil || ctx.Err() != nil {
			return
		}
		// A failed group reports its failure itself.
		if c.group.Err() == nil {
			c.fail(fmt.Errorf("what its leader does has stopped: %w", err))
		}
	})
}

// lead does the leader's background work until its leadership ends.
func (c *Cell) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if c.usage != nil {
		running.Go(func() { c.usage.Run(ctx) })
	}
	if c.outbox != nil {
		running.Go(func() { c.outbox.Run(ctx) })
	}
	if c.hooks != nil {
		running.Go(func() { c.hooks.Run(ctx) })
	}
	running.Go(func() {
		if err := c.bulks.Run(ctx); err != nil {
			c.fail(err)
		}
	})
	raised := make(chan struct{}, 1)
	running.Go(func() { c.raiseLevel(ctx, raised) })
	running.Go(func() { c.proposeMembers(ctx, raised) })
	running.Go(func() { c.applySettings(ctx) })
	return c.duties.Run(ctx)
}

func (c *Cell) fail(err error) {
	if c.failure.CompareAndSwap(nil, &err) {
		c.cfg.Logger.Error("a cell is unhealthy", "group", c.cfg.Group, "error", err)
	}
}

// Close closes the cell in order: it ends the leader's work, refuses new proposals, waits for the admitted
// ones (see engine.Group.Close about ctx), flushes the store and closes everything. It may be called once.
func (c *Cell) Close(ctx context.Context) error {
	c.stop()
	c.running.Wait()
	return errors.Join(c.group.Close(ctx), c.view.Close(), c.store.Close())
}

// lastRecordLimit bounds the recording of usage before a shard is deleted.
const lastRecordLimit = 5 * time.Second

// SettleUsage waits until the receiver has all usage in the store, whether this member leads or not. The host calls it before it deletes the
// shard's data, when new requests are refused. A leader first records what the shard has metered in its last minute. If
// it cannot, because the other members have gone already, that is not billed. Without a receiver SettleUsage returns at
// once.
func (c *Cell) SettleUsage(ctx context.Context) error {
	if c.usage == nil {
		return nil
	}
	if c.Leader() {
		recording, cancel := context.WithTimeout(ctx, lastRecordLimit)
		if err := c.duties.RecordUsage(recording); err != nil {
			c.cfg.Logger.Warn("the last minute of a deleted shard is not recorded as usage", "group", c.cfg.Group, "error", err)
		}
		cancel()
	}
	return c.usage.Settle(ctx)
}

// UsageOwed returns the number of usage rows that the receiver has not confirmed. It may be called after
// Close.
func (c *Cell) UsageOwed() uint64 {
	if c.usage == nil {
		return 0
	}
	return c.usage.Owed()
}

// Index is a position in the shard's log. A write returns it and a read may wait for it.
type Index uint64

// Propose commits one op and returns its result and its index. It refuses an op that is newer than the
// feature level in force with UNSUPPORTED. Its other errors are those of engine.Propose.
func Propose[R any](ctx context.Context, c *Cell, o op.Op) (R, Index, error) {
	return ProposeWithin[R](ctx, 0, c, o)
}

// ProposeWithin is like Propose, but gives up after limit; 0 sets no limit.
func ProposeWithin[R any](ctx context.Context, limit time.Duration, c *Cell, o op.Op) (R, Index, error) {
	if err := op.Admit(o, c.machine.Level()); err != nil {
		var none R
		return none, 0, err
	}
	result, position, err := engine.ProposeWithin[R](ctx, limit, c.group, op.Proposal(o))
	return result, Index(position.Index), err
}

// Level returns the feature level in force.
func (c *Cell) Level() uint32 { return c.machine.Level() }

// Shard returns the shard's number.
func (c *Cell) Shard() uint32 { return c.cfg.Shard }

// Ready waits until the cell takes writes.
func (c *Cell) Ready(ctx context.Context) error { return c.group.Ready(ctx) }

// Verify returns nil once every write that any leader acknowledged before the call is applied here.
func (c *Cell) Verify(ctx context.Context) error { return c.group.Verify(ctx) }

// Leader reports whether this member leads its group.
func (c *Cell) Leader() bool { return c.group.Leader() }

// Led reports whether this member leads its group or knows the leader.
func (c *Cell) Led() bool { return c.group.Leader() || c.group.LeaderID() != "" }

// Applied returns the index of the last entry in the store.
func (c *Cell) Applied() Index { return Index(c.store.Applied().Index) }

// Engine returns the cell's Raft group, on which its members are changed.
func (c *Cell) Engine() *engine.Group { return c.group }

// State returns the store, for reading.
func (c *Cell) State() *state.Store { return c.store }

// View returns the view, for reading.
func (c *Cell) View() *view.View { return c.view }
