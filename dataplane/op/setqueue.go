package op

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SetQueue changes the named settings of a queue and creates the queue if it is new. Settings apply from the
// next fetch or enqueue: if a queue is paused, or its concurrency lowered below its number of active jobs,
// the active jobs stay with their workers. If max_length is lowered below the number of waiting jobs, these
// stay. The queue then refuses more jobs or, with on_full drop_oldest, drops one ready job for each job that
// it accepts. Retention also applies to jobs that have settled before, because it is looked up when a job is
// removed.
//
// Draining pauses a queue. The queue stays paused after its active jobs have ended; resuming it ends the
// draining.
//
// The op is refused with CONFLICT if the queue is being deleted, or would be new while the number of queues
// is at its limit. It is refused with PRECONDITION_FAILED if the settings are not those that the client saw,
// if the client saw a queue that does not exist, or if create is set and the queue exists.

// Validate refuses an op that no state could accept.
func (o *SetQueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("queue", job.CheckStoredQueueName(o.Queue))
	if n := o.GetMaxConcurrency(); n > job.MaxConcurrency {
		p.add("max_concurrency", fmt.Errorf("is %d; at most %d are allowed, 0 is unlimited", n, job.MaxConcurrency))
	}
	if (o.RateLimit == nil) != (o.RateWindowMs == nil) {
		p.add("rate_limit", errors.New("and rate_window_ms come together"))
	}
	p.add("rate_limit", job.CheckRateLimit(o.GetRateLimit()))
	if o.GetRateLimit() > 0 {
		p.add("rate_window_ms", job.CheckRateWindow(o.GetRateWindowMs()))
	}
	if o.GetDraining() && o.Paused != nil && !*o.Paused {
		p.add("draining", errors.New("pauses the queue: leave paused out, or true"))
	}
	p.add("max_length", job.CheckQueueLength(o.GetMaxLength()))
	if w := o.GetOverflow(); w != job.Overflow_OVERFLOW_REJECT && w != job.Overflow_OVERFLOW_DROP_OLDEST {
		p.add("on_full", fmt.Errorf("is %d; use reject or drop_oldest", w))
	}
	if name := o.GetProvider(); name != "" {
		p.add("provider", job.CheckProviderName(name))
	}
	for _, err := range job.CheckRetention(o.GetRetention()) {
		p.add("retention", err)
	}
	if ms := o.GetAgeingMs(); ms < 0 || ms > job.MaxAgeing.Milliseconds() {
		p.add("priority_ageing", fmt.Errorf("is %d ms; at most %s are allowed, 0 is never", ms, job.MaxAgeing))
	}
	if o.Defaults != nil {
		for _, err := range checkDefaults(o.Defaults) {
			p.add("defaults", err)
		}
	}
	return p.err()
}

// checkDefaults checks a queue's defaults by the rules for the same fields of a job.
func checkDefaults(d *state.QueueDefaults) []error {
	var errs []error
	if n := d.GetPriority(); n >= job.Priorities {
		errs = append(errs, fmt.Errorf("priority is %d; use critical (0), high (1) or normal (2)", n))
	}
	retry := job.NewRetry()
	for _, x := range []struct {
		from *uint32
		to   *uint32
	}{{d.MaxAttempts, &retry.MaxAttempts}, {d.JitterPercent, &retry.JitterPercent}} {
		if x.from != nil {
			*x.to = *x.from
		}
	}
	if d.Backoff != nil {
		retry.Backoff = *d.Backoff
	}
	if d.BaseDelayMs != nil {
		retry.BaseDelayMs = *d.BaseDelayMs
	}
	if d.MaxDelayMs != nil {
		retry.MaxDelayMs = *d.MaxDelayMs
	}
	errs = append(errs, job.CheckRetry(retry)...)
	if d.JitterPercent != nil && *d.JitterPercent > 100 {
		errs = append(errs, fmt.Errorf("retry_jitter_percent is %d; it lies between 0 and 100", *d.JitterPercent))
	}
	if ms := d.ExpireAfterMs; ms != nil && (*ms < 1 || *ms > job.MaxExpireAfter.Milliseconds()) {
		errs = append(errs, fmt.Errorf("expire_after is %d ms; it lies between 1 ms and %s", *ms, job.MaxExpireAfter))
	}
	return errs
}

// Apply changes the settings.
func (o *SetQueue) Apply(tx *state.Tx) (*SetQueueResult, error) {
	was := tx.Queue(o.Queue)
	if was.GetDeleting() {
		return nil, beingDeleted(o.Queue)
	}
	if err := o.expected(was); err != nil {
		return nil, err
	}
	created := was == nil
	if created {
		if err := admitQueues(tx, 1); err != nil {
			return nil, err
		}
	}
	q := tx.EnsureQueue(o.Queue)
	events := make([]state.EventType, 0, 2)
	if changed := o.limits(q, tx.ClockNs()); o.keep(q) || changed || created {
		events = append(events, state.EventType_EVENT_QUEUE_CHANGED)
	}
	paused, draining := o.stops(q)
	switch {
	case paused && !q.Paused:
		events = append(events, state.EventType_EVENT_QUEUE_PAUSED)
	case q.Paused && !paused:
		events = append(events, state.EventType_EVENT_QUEUE_RESUMED)
	case draining != q.Draining && len(events) == 0:
		events = append(events, state.EventType_EVENT_QUEUE_CHANGED)
	}
	q.Paused, q.Draining = paused, draining
	if len(events) > 0 {
		tx.PutQueue(q, events...)
	}
	return &SetQueueResult{}, nil
}

// stops returns whether the queue shall be paused and whether it shall drain.
func (o *SetQueue) stops(q *state.Queue) (paused, draining bool) {
	paused, draining = q.Paused, q.Draining
	if o.Paused != nil {
		paused = *o.Paused
	}
	if o.Draining != nil {
		draining = *o.Draining
		paused = paused || draining
	}
	return paused, draining && paused
}

// limits sets the limits on fetches, which are max_concurrency and the rate limit, and reports whether one
// has changed.
func (o *SetQueue) limits(q *state.Queue, clockNs int64) (changed bool) {
	changed = set(&q.MaxConcurrency, o.MaxConcurrency)
	if o.RateLimit == nil {
		return changed
	}
	window := *o.RateWindowMs
	if *o.RateLimit == 0 {
		window, q.Rate = 0, nil
	} else if q.Rate != nil {
		q.Rate = q.Rate.Over(window, clockNs)
	}
	changed = set(&q.RateLimit, o.RateLimit) || changed
	return set(&q.RateWindowMs, &window) || changed
}

// keep sets the limits on enqueues, the provider, the ageing, the retention and the defaults, and reports
// whether one has changed.
func (o *SetQueue) keep(q *state.Queue) (changed bool) {
	changed = set(&q.MaxLength, o.MaxLength)
	changed = set(&q.Overflow, o.Overflow) || changed
	changed = set(&q.Provider, o.Provider) || changed
	changed = set(&q.AgeingMs, o.AgeingMs) || changed
	if o.Retention != nil && !proto.Equal(retentionOf(q), o.Retention) {
		q.Retention, changed = o.Retention, true
	}
	if o.Defaults != nil && !proto.Equal(defaultsOf(q), o.Defaults) {
		q.Defaults, changed = o.Defaults, true
	}
	return changed
}

// retentionOf and defaultsOf treat a setting that was never set like an empty one.
func retentionOf(q *state.Queue) *job.Retention {
	if q.Retention == nil {
		return &job.Retention{}
	}
	return q.Retention
}

func defaultsOf(q *state.Queue) *state.QueueDefaults {
	if q.Defaults == nil {
		return &state.QueueDefaults{}
	}
	return q.Defaults
}

// set changes a setting if it is named, and reports whether its value is new.
func set[T comparable](setting *T, to *T) bool {
	if to == nil || *setting == *to {
		return false
	}
	*setting = *to
	return true
}
