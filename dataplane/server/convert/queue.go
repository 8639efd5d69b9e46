package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// FromConcurrency converts a queue's limit of running jobs.
func FromConcurrency(f *Faults, r *api.ConcurrencyRequest) *uint32 {
	if r.Max == nil {
		f.Invalid("max", "is missing; give the most jobs that may run at once, 0 for no limit")
		return nil
	}
	return concurrency(f, "max", *r.Max)
}

func concurrency(f *Faults, field string, n int) *uint32 {
	if n < 0 || n > job.MaxConcurrency {
		f.Invalid(field, "is %d; it takes 0, for no limit, to %d", n, job.MaxConcurrency)
		return nil
	}
	most := uint32(n)
	return &most
}

// FromThrottle sets the rate limit of o. The request must give the rate, and the window either as period or
// as window_ms.
func FromThrottle(f *Faults, r *api.ThrottleRequest, o *op.SetQueue) {
	switch {
	case r.Rate == nil:
		f.Invalid("rate", "is missing: give the number of jobs that may start in a period")
		return
	case *r.Rate < 1 || *r.Rate > job.MaxRateLimit:
		f.Invalid("rate", "is %d; it takes 1 to %d; to lift the limit, delete it", *r.Rate, job.MaxRateLimit)
		return
	}
	windowMs := int64(0)
	switch {
	case (r.Period == "") == (r.WindowMs == nil):
		f.Invalid("period", "is missing, or there beside window_ms; give one of them, like \"1m\" or 60000")
		return
	case r.WindowMs != nil:
		windowMs = rateWindow(f, "window_ms", *r.WindowMs)
	default:
		windowMs = rateWindow(f, "period", anyMillis(f, "period", r.Period))
	}
	limit := uint32(*r.Rate)
	o.RateLimit, o.RateWindowMs = &limit, &windowMs
}

// rateWindow checks the window of a rate limit. A duration that anyMillis has refused gets no second fault,
// because Faults keeps one fault of a field.
func rateWindow(f *Faults, field string, ms int64) int64 {
	if err := job.CheckRateWindow(ms); err != nil {
		f.Invalid(field, "%v", err)
	}
	return ms
}

// FromPutQueue sets every setting of the queue in o. A setting that is absent or null gets its default.
func FromPutQueue(f *Faults, b *api.PutQueueRequest, o *op.SetQueue) {
	paused := valueOf(b.Paused)
	o.Paused = &paused // a draining queue stays draining as long as it is paused
	o.MaxConcurrency = concurrency(f, "max_concurrency", valueOf(b.MaxConcurrency))
	putRate(f, b, o)
	ageing := millis(f, "priority_ageing", b.PriorityAgeing, 0, job.MaxAgeing)
	o.AgeingMs = &ageing
	length := valueOf(b.MaxLength)
	if length < 0 || length > job.MaxQueueLength {
		f.Invalid("max_length", "is %d; it takes 0, for no limit, to %d", length, job.MaxQueueLength)
	}
	most := uint64(max(length, 0))
	o.MaxLength = &most
	overflow := overflowOf(f, b.OnFull)
	o.Overflow = &overflow
	o.Retention = retention(f, b.Retention)
	o.Defaults = queueDefaults(f, b.Defaults)
	provider := providerName(f, b.Provider)
	o.Provider = &provider
}

func putRate(f *Faults, b *api.PutQueueRequest, o *op.SetQueue) {
	limit, windowMs := valueOf(b.RateLimit), valueOf(b.RateWindowMs)
	switch {
	case limit < 0 || limit > job.MaxRateLimit:
		f.Invalid("rate_limit", "is %d; it takes 0, for no limit, to %d", limit, job.MaxRateLimit)
	case limit > 0 && windowMs == 0:
		f.Invalid("rate_window_ms", "is missing; rate_limit needs it, as the milliseconds of its window, like 60000")
	case limit > 0:
		windowMs = rateWindow(f, "rate_window_ms", windowMs)
	case windowMs != 0:
		f.Invalid("rate_window_ms", "is %d without a rate_limit; give both, or leave it out", windowMs)
	}
	most := uint32(max(limit, 0))
	o.RateLimit, o.RateWindowMs = &most, &windowMs
}

func overflowOf(f *Faults, word string) job.Overflow {
	switch word {
	case "", api.OnFullReject:
		return job.Overflow_OVERFLOW_REJECT
	case api.OnFullDropOldest:
		return job.Overflow_OVERFLOW_DROP_OLDEST
	}
	f.Invalid("on_full", "is %s; use reject or drop_oldest", text.Quote(word))
	return job.Overflow_OVERFLOW_REJECT
}

// retention converts the settings that say how long a queue or the namespace keeps settled jobs. An absent
// setting becomes 0. For a queue 0 means the namespace's setting, for the namespace the default.
func retention(f *Faults, r *api.QueueRetention) *job.Retention {
	out := &job.Retention{}
	if r == nil {
		return out
	}
	for _, x := range []struct {
		field string
		said  api.Duration
		ms    *int64
	}{
		{"retention.completed", r.Completed, &out.CompletedMs},
		{"retention.dead", r.Dead, &out.DeadMs},
		{"retention.cancelled", r.Cancelled, &out.CancelledMs},
	} {
		switch x.said {
		case "":
		case api.Forever:
			*x.ms = job.Forever
		default:
			*x.ms = anyMillis(f, x.field, x.said)
			if *x.ms < 1 || *x.ms > job.MaxRetention.Milliseconds() {
				f.Invalid(x.field, "is %s; it takes 1ms to %s, or \"forever\"; leave it out for the namespace's", x.said, job.MaxRetention)
			}
		}
	}
	return out
}

// queueDefaults converts the defaults of a queue's jobs. It refuses the same values as an enqueue.
func queueDefaults(f *Faults, d *api.QueueDefaults) *state.QueueDefaults {
	out := &state.QueueDefaults{}
	if d == nil {
		return out
	}
	switch level, ok, err := d.Priority.Level(); {
	case err != nil:
		f.Invalid("defaults.priority", "%v", err)
	case ok:
		out.Priority = pointer(uint32(level))
	}
	if n := d.MaxRetries; n != nil {
		out.MaxAttempts = within(f, "defaults.max_retries", *n, 1, job.MaxAttempts)
	}
	if n := d.RetryJitterPercent; n != nil {
		out.JitterPercent = within(f, "defaults.retry_jitter_percent", *n, 0, job.MaxJitterPercent)
	}
	if d.RetryBackoff != "" {
		word, ok := job.ParseBackoff(d.RetryBackoff)
		if !ok {
			f.Invalid("defaults.retry_backoff", "%s is not a backoff: use none, fixed, linear or exponential", text.Quote(d.RetryBackoff))
		}
		out.Backoff = &word
	}
	if d.RetryBaseDelay != nil {
		out.BaseDelayMs = pointer(millis(f, "defaults.retry_base_delay", *d.RetryBaseDelay, 0, job.MaxRetryDelay))
	}
	if d.RetryMaxDelay != nil {
		out.MaxDelayMs = pointer(millis(f, "defaults.retry_max_delay", *d.RetryMaxDelay, 0, job.MaxRetryDelay))
	}
	if out.BaseDelayMs != nil && out.MaxDelayMs != nil && *out.BaseDelayMs > *out.MaxDelayMs {
		f.Invalid("defaults.retry_max_delay", "is shorter than defaults.retry_base_delay")
	}
	if d.ExpireAfter != "" {
		ms := anyMillis(f, "defaults.expire_after", d.ExpireAfter)
		if ms < 1 || ms > job.MaxExpireAfter.Milliseconds() {
			f.Invalid("defaults.expire_after", "is %s; it takes 1ms to %s", d.ExpireAfter, job.MaxExpireAfter)
		}
		out.ExpireAfterMs = &ms
	}
	return out
}

func within(f *Faults, field string, n, least, most int) *uint32 {
	if n < least || n > most {
		f.Invalid(field, "is %d; it takes %d to %d", n, least, most)
		return nil
	}
	return pointer(uint32(n))
}

func pointer[T any](v T) *T { return &v }

// valueOf returns the value of an optional field, or its zero value if it is absent.
func valueOf[T any](v *T) (zero T) {
	if v == nil {
		return zero
	}
	return *v
}
