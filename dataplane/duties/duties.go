// Package duties is what a shard's leader does unasked: it watches the timers of
// the store and proposes the op each due one calls for. The table below is all
// there is to know of them. A duty decides nothing: the op rechecks every id it
// is given against the entry's clock, so a duty that runs twice, late or on a
// leader that is none any more does no harm. An idle shard proposes nothing.
//
// It may import state, op and the pipeline's Op; it knows neither raft nor HTTP.
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
	"github.com/corvo/corvo/engine/pipeline"
)

// never is a due time that does not come.
const never = int64(math.MaxInt64)

// Back-off after a refused proposal, doubled up to the most.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

// Config is what the duties of one shard need.
type Config struct {
	Store *state.Store
	// Propose hands an op to the shard's leader and waits for its commit.
	Propose func(ctx context.Context, o pipeline.Op) error
	// NowNs is the clock entries are stamped with, in Unix nanoseconds.
	NowNs func() int64
	// ViewSeq is the feed sequence this node's own view still needs; the feed is
	// trimmed behind it unless it has outgrown FeedBytes.
	ViewSeq func() uint64
	// FeedKeep is how many events readers of the feed may lie behind.
	FeedKeep uint64
	// FeedBytes is how many bytes of entries the feed holds at most; 0 = job.MaxFeedBytes.
	FeedBytes uint64
	// UsageKept is for how long usage rows are kept (0 = job.UsageKept), and UsageKeep
	// how many of them at most. Where UsageAcked is set only those up to the number it answers may be
	// removed, which are known to be with their receiver.
	UsageKept  time.Duration
	UsageKeep  uint64
	UsageAcked func() uint64
	// AuditKept is for how long audit records are kept (0 = job.AuditKept), and AuditKeep
	// how many of them at most (0 = job.MaxAuditRecords).
	AuditKept time.Duration
	AuditKeep uint64
	// Prices is the shipped price book; nil is none. It is never changed.
	Prices *op.SeedPrices
	// JobIDs lists up to limit jobs of a queue in any of the states, those numbered
	// below one, state by state and the newest of each first; they are as of the last
	// commit or later. It is VIEW_BEHIND where that cannot be had before ctx ends.
	JobIDs func(ctx context.Context, queue string, states []job.State, below uint64, limit int) ([]job.ID, error)
	// Measure is what an alert rule looks at, over the whole namespace; nil = this
	// shard is not the one that looks after alert rules.
	Measure func(ctx context.Context, r *state.AlertRule) (float64, error)
	// SetAlerts is Propose for the op whose answer says what nobody could be told of,
	// and NewID mints an id for a delivery. Both come with Measure.
	SetAlerts func(ctx context.Context, o *op.SetAlerts) (*op.SetAlertsResult, error)
	NewID     func() job.ID
	Logger    *slog.Logger
}

// Duties runs the table. Run it while the node leads.
type Duties struct {
	cfg   Config
	wake  chan struct{}
	next  atomic.Int64 // when Run wakes by itself; an earlier timer wakes it sooner
	feed  growth
	usage struct {
		growth
		dueNs int64 // when the oldest rows are old enough to go; only Run's goroutine uses it
	}
	audit struct {
		growth
		dueNs int64 // as for usage
	}
	// asked are the queues being deleted whose active jobs have been asked to end, and
	// the number down to which; only Run's goroutine uses it.
	asked map[string]uint64
	// gates are those that jobs wait at; only Run's goroutine uses it.
	gates   map[gateKey]*watch
	alerts  alerts
	purging purging // only Run's goroutine uses it
}

// New makes the duties of one shard; Run starts them.
func New(cfg Config) *Duties {
	cfg.UsageKept = cmp.Or(cfg.UsageKept, job.UsageKept)
	cfg.AuditKept, cfg.AuditKeep = cmp.Or(cfg.AuditKept, job.AuditKept), cmp.Or(cfg.AuditKeep, job.MaxAuditRecords)
	cfg.FeedBytes = cmp.Or(cfg.FeedBytes, job.MaxFeedBytes)
	d := &Duties{cfg: cfg, wake: make(chan struct{}, 1)}
	d.next.Store(never)
	return d
}

// OnTimer is the store's hook: a timer was set that is due at dueNs.
func (d *Duties) OnTimer(_ state.TimerClass, dueNs int64) {
	if dueNs < d.next.Load() {
		d.poke()
	}
}

// OnReplenish is the store's hook: rate limits keep jobs, the first until dueNs.
func (d *Duties) OnReplenish(dueNs int64) {
	if dueNs < d.next.Load() {
		d.poke()
	}
}

// OnRetention is the store's hook: a settled job is to be removed at dueNs, earlier than
// any other.
func (d *Duties) OnRetention(dueNs int64) {
	if dueNs < d.next.Load() {
		d.poke()
	}
}

// OnClearing is the store's hook: there is something new in a queue that is being
// cleared or deleted.
func (d *Duties) OnClearing() { d.poke() }

// OnGate is the store's hook: a gate may have opened that jobs wait at, or another has
// come to one.
func (d *Duties) OnGate() { d.poke() }

// OnResources is the store's hook: resources were declared, changed or taken back.
func (d *Duties) OnResources() { d.poke() }

// OnFeed is the store's hook: the feed has grown.
func (d *Duties) OnFeed() {
	if d.feed.grew() {
		d.poke()
	}
}

// OnUsage says that there are usage rows, or rows acknowledged by their receiver,
// that were not there before. It is the store's hook and the usage sink's.
func (d *Duties) OnUsage() {
	if d.usage.grew() {
		d.poke()
	}
}

// OnAudit is the store's hook: there are new audit records.
func (d *Duties) OnAudit() {
	if d.audit.grew() {
		d.poke()
	}
}

func (d *Duties) poke() {
	select {
	case d.wake <- struct{}{}:
	default: // a wake is already waiting to be seen, and it will see this too
	}
}

// Run does what is due until ctx ends, which is the only thing it returns nil
// for: any other end is an error that makes the shard unhealthy. Refusals that
// pass (overload, no leader) are tried again with a growing delay.
func (d *Duties) Run(ctx context.Context) error {
	backoff := minBackoff
	d.asked, d.usage.dueNs, d.audit.dueNs = map[string]uint64{}, 0, 0 // another may have led since
	d.gates, d.purging = map[gateKey]*watch{}, purging{}
	d.alerts.forget()
	for {
		// While we look, every new timer pokes: one set behind our back makes one
		// more pass, where a cleverer bound could oversleep it.
		d.next.Store(never)
		next, err := d.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			backoff = minBackoff
		case retryable(err):
			d.cfg.Logger.Warn("a duty was refused and will be tried again", "error", err, "in", backoff)
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

// retryable tells a refusal that passes from one that will not.
func retryable(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code.Retryable() && e.Code != api.Unhealthy
}

// pass does everything that is due and says when it wants to be called again.
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

// sleep waits until next, a poke or the end of ctx, and reports false for the
// last.
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
