package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// resolvedDefaults are the settings with defaults that a job runs with: for each value the client's, else its
// queue's default, else the built-in default.
type resolvedDefaults struct {
	priority      uint32
	retry         *job.Retry
	expireAfterMs int64
}

// resolveDefaults takes the values that the client left open from the queue's defaults. It runs at apply and
// not at the proposer, because only then the queue's defaults are certain.
func (nj *NewJob) resolveDefaults(d *state.QueueDefaults) resolvedDefaults {
	t := resolvedDefaults{nj.Priority, nj.Retry, nj.Options.GetExpireAfterMs()}
	if nj.Defaults == 0 || d.SizeVT() == 0 { // an empty record is left when the defaults are removed
		return t
	}
	inherit(nj, job.DefaultsPriority, &t.priority, d.Priority)
	inherit(nj, job.DefaultsExpireAfter, &t.expireAfterMs, d.ExpireAfterMs)
	t.retry = nj.resolveRetry(d)
	return t
}

// inherit takes a value from the queue's defaults, if the client left it open and the queue has one.
func inherit[T any](nj *NewJob, left uint32, value *T, queues *T) {
	if nj.Defaults&left != 0 && queues != nil {
		*value = *queues
	}
}

// resolveRetry returns the job's retry policy. If its two delays come from different sources and the base
// delay exceeds the maximum, the delay of the weaker source is set to the other delay: the client outranks
// the queue, and the queue outranks the built-in defaults.
func (nj *NewJob) resolveRetry(d *state.QueueDefaults) *job.Retry {
	r := &job.Retry{
		MaxAttempts: nj.Retry.GetMaxAttempts(), Backoff: nj.Retry.GetBackoff(), JitterPercent: nj.Retry.GetJitterPercent(),
		BaseDelayMs: nj.Retry.GetBaseDelayMs(), MaxDelayMs: nj.Retry.GetMaxDelayMs(),
	}
	inherit(nj, job.DefaultsMaxAttempts, &r.MaxAttempts, d.MaxAttempts)
	inherit(nj, job.DefaultsBackoff, &r.Backoff, d.Backoff)
	inherit(nj, job.DefaultsJitter, &r.JitterPercent, d.JitterPercent)
	inherit(nj, job.DefaultsBaseDelay, &r.BaseDelayMs, d.BaseDelayMs)
	inherit(nj, job.DefaultsMaxDelay, &r.MaxDelayMs, d.MaxDelayMs)
	if r.BaseDelayMs <= r.MaxDelayMs {
		return r
	}
	base := nj.weight(job.DefaultsBaseDelay, d.BaseDelayMs)
	most := nj.weight(job.DefaultsMaxDelay, d.MaxDelayMs)
	if most > base {
		r.BaseDelayMs = r.MaxDelayMs
	} else {
		r.MaxDelayMs = r.BaseDelayMs
	}
	return r
}

// weight ranks the source of a delay: 2 the client, 1 the queue, 0 the built-in default.
func (nj *NewJob) weight(left uint32, queues *int64) int {
	switch {
	case nj.Defaults&left == 0:
		return 2
	case queues != nil:
		return 1
	}
	return 0
}
