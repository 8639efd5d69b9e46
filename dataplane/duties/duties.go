// Package duties runs a shard's background tasks while its node leads. It watches the timers of the store and
// proposes ops for the records that are due. Table lists the duties. A duty decides nothing: the op checks
// every id again by the entry's clock, so a duty that runs twice, late or on a former leader does no harm. An
// idle shard proposes nothing.
//
// The package may import op and the packages that op may import; it knows neither raft nor HTTP.
package duties

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// never is a due time that does not come.
const never = int64(math.MaxInt64)

// The backoff after a refused proposal. Each further refusal doubles it, up to maxBackoff.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

// Config configures the duties of one shard.
type Config struct {
	Store *state.Store
	// Propose hands an op to the shard's leader and waits for its commit.
	Propose func(ctx context.Context, o op.Op) error
	// NowNs returns the time that new entries get, in Unix nanoseconds.
	NowNs func() int64
	// ViewSeq returns the next feed sequence that this node's own view needs. The feed keeps the events from
	// there on unless it has outgrown FeedBytes.
	ViewSeq func() uint64
	// FeedKeep is the number of events that readers of the feed may lag behind. It has no default.
	FeedKeep uint64
	// FeedBytes bounds the bytes of entries in the feed; 0 = job.MaxFeedBytes.
	FeedBytes uint64
	// UsageKept is how long usage rows are kept (0 = job.UsageKept). UsageKeep bounds their number and has no
	// default. If UsageAcked is set, only rows up to the number it returns may be removed, because only those
	// have reached their receiver.
	UsageKept  time.Duration
	UsageKeep  uint64
	UsageAcked func() uint64
	// StoredBytes measures the store for a usage row; nil = nobody receives usage, and the shard records none of its
	// meters.
	StoredBytes func() (uint64, error)
	// AuditKept is how long audit records are kept (0 = job.AuditKept). AuditKeep bounds their number (0 =
	// job.MaxAuditRecords).
	AuditKept time.Duration
	AuditKeep uint64
	// Prices is the shipped price book, or nil. Duties never change it.
	Prices *op.SeedPrices
	// JobIDs lists up to limit jobs of a queue that are in one of the states and numbered below a bound. It
	// lists state by state, the newest jobs of each state first. The list includes the last commit. If it
	// cannot include the last commit before ctx ends, the error is VIEW_BEHIND or ctx's error.
	JobIDs func(ctx context.Context, queue string, states []job.State, below uint64, limit int) ([]job.ID, error)
	// Measure returns the value that an alert rule watches, over the whole namespace; nil = another shard
	// evaluates the alert rules.
	Measure func(ctx context.Context, r *state.AlertRule) (float64, error)
	// SetAlerts proposes the op and returns how many deliveries were dropped. NewID creates the id of a
	// delivery. Both are set together with Measure.
	SetAlerts func(ctx context.Context, o *op.SetAlerts) (*op.SetAlertsResult, error)
	NewID     func() job.ID
	Logger    *slog.Logger
}

// Duties runs the duties of Table. Its owner calls Run while the node leads.
type Duties struct {
	cfg   Config
	wake  chan struct{}
	next  atomic.Int64 // when Run wakes by itself; an earlier timer wakes it sooner
	feed  growth
	usage struct {
		growth
		dueNs int64 // when the oldest rows are old enough to be removed; only Run's goroutine uses it
	}
	audit struct {
		growth
		dueNs int64 // like usage.dueNs
	}
	// asked maps each queue that is being deleted to a job number: the queue's active jobs with that number
	// or a higher one have been cancelled. Only Run's goroutine uses it.
	asked map[string]uint64
	// gates are the gates with waiting jobs; only Run's goroutine uses it.
	gates   map[gateKey]*watch
	alerts  alerts
	purging purging // only Run's goroutine uses it
}

// New creates the duties of one shard; Run starts them.
func New(cfg Config) *Duties {
	cfg.UsageKept = cmp.Or(cfg.UsageKept, job.UsageKept)
	cfg.AuditKept, cfg.AuditKeep = cmp.Or(cfg.AuditKept, job.AuditKept), cmp.Or(cfg.AuditKeep, job.MaxAuditRecords)
	cfg.FeedBytes = cmp.Or(cfg.FeedBytes, job.MaxFeedBytes)
	d := &Duties{cfg: cfg, wake: make(chan struct{}, 1)}
	d.next.Store(never)
	return d
}

// OnTimer implements the store's hook for new timers, the earliest of them due at dueNs.
func (d *Duties) OnTimer(_ state.TimerClass, dueNs int64) {
	if dueNs < d.next.Load() {
		d.poke()
	}
}

// OnReplenish implements the store's hook for rate limits that keep back jobs. The first of them allows jobs
// again at dueNs.
func (d *Duties) OnReplenish(dueNs int64) {
	if dueNs < d.next.Load() {
		d.poke()
	}
}

// OnRetention implements the store's hook for a settled job that is to be removed at dueNs, earlier than any
// other.
func (d *Duties) OnRetention(dueNs int64) {
	if dueNs < d.next.Load() {
		d.poke()
	}
}

// OnClearing implements the store's hook for a change of a queue that is being cleared or deleted.
func (d *Duties) OnClearing() { d.poke() }

// OnGate implements the store's hook for a gate that may have opened or has received a job.
func (d *Duties) OnGate() { d.poke() }

// OnResources implements the store's hook for resources that were declared, changed or removed.
func (d *Duties) OnResources() { d.poke() }

// OnFeed implements the store's hook for a feed that has grown.
func (d *Duties) OnFeed() {
	if d.feed.grew() {
		d.poke()
	}
}

// OnUsage notifies the duties of new usage rows, or of rows that their receiver has acknowledged. It
// implements the store's hook, and the usage sink calls it too.
func (d *Duties) OnUsage() {
	if d.usage.grew() {
		d.poke()
	}
}

// OnMeters implements the store's hook for a first queue with quantities that no usage row has.
func (d *Duties) OnMeters() { d.poke() }

// OnLevel notifies the duties that the feature level was raised.
func (d *Duties) OnLevel() { d.poke() }

// OnAudit implements the store's hook for new audit records.
func (d *Duties) OnAudit() {
	if d.audit.grew() {
		d.poke()
	}
}

func (d *Duties) poke() {
	select {
	case d.wake <- struct{}{}:
	default: // a wake-up that Run has not taken yet covers this one, too
	}
}

// Run runs the duties until ctx ends and then returns nil. Any other end is an error that makes the shard
// unhealthy. It tries again after a temporary refusal (overload, no leader), with a growing delay.
func (d *Duties) Run(ctx context.Context) error {
	backoff := minBackoff
	d.asked, d.usage.dueNs, d.audit.dueNs = map[string]uint64{}, 0, 0 // another leader may have led in between
	d.gates, d.purging = map[gateKey]*watch{}, purging{}
	d.alerts.forget()
	for {
		// During a pass every new timer calls poke. So a timer that a duty misses costs one more pass, where
		// a closer bound could let Run sleep past it.
		d.next.Store(never)
		next, err := d.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			backoff = minBackoff
		case retryable(err):
			d.cfg.Logger.Warn("a duty was refused; the leader tries it again", "error", err, "retry_in", backoff)
			next = d.cfg.NowNs() + int64(backoff)
			backoff = min(2*backoff, maxBackoff)
		default:
			return err
		}
		if !d.sleep(ctx, next) {
			return nil
		}
	}
}

// retryable reports whether Run tries again after an error. UNHEALTHY ends Run, although it is retryable for
// clients.
func retryable(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code.Retryable() && e.Code != api.Unhealthy
}

// pass runs every duty and returns the earliest time at which one wants to run again.
func (d *Duties) pass(ctx context.Context) (next int64, err error) {
	next = never
	for _, duty := range Table {
		again, err := duty.run(ctx, d)
		if err != nil {
			return 0, err
		}
		next = min(next, again)
	}
	return next, nil
}

// sleep waits until next, a poke or the end of ctx. It returns false if ctx has ended.
func (d *Duties) sleep(ctx context.Context, next int64) bool {
	d.next.Store(next)
	var due <-chan time.Time
	if next != never {
		t := time.NewTimer(time.Duration(max(0, next-d.cfg.NowNs())))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-d.wake:
	case <-due:
	}
	return true
}
