package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// terms are the settings that a job runs with: the client's, else its queue's defaults, else the built-in
// defaults.
type terms struct {
	priority      uint32
	retry         *job.Retry
	expireAfterMs int64
}

// terms takes the values that the client left open from the queue's defaults. It runs at apply and not at the
// proposer, because only then the queue's defaults are certain.
func (nj *NewJob) terms(d *state.QueueDefaults) terms {
	t := terms{nj.Priority, nj.Retry, nj.Options.GetExpireAfterMs()}
	if nj.Defaults == 0 || d.SizeVT() == 0 { // also after the queue's defaults were removed
		return t
	}
	ask(nj, job.DefaultsPriority, &t.priority, d.Priority)
	ask(nj, job.DefaultsExpireAfter, &t.expireAfterMs, d.ExpireAfterMs)
	t.retry = nj.retryTerms(d)
	return t
}

// ask takes a value from the queue's defaults, if the client left it open and the queue has one.
func ask[T any](nj *NewJob, left uint32, value *T, queues *T) {
	if nj.Defaults&left != 0 && queues != nil {
		*value = *queues
	}
}

// retryTerms returns the job's retry policy. If its two delays come from different sources and contradict
// each other, the weaker source gives way: the client outranks the queue, and the queue outranks the built-in
// defaults.
func (nj *NewJob) retryTerms(d *state.QueueDefaults) *job.Retry {
	r := &job.Retry{
		MaxAttempts: nj.Retry.GetMaxAttempts(), Backoff: nj.Retry.GetBackoff(), JitterPercent: nj.Retry.GetJitterPercent(),
		BaseDelayMs: nj.Retry.GetBaseDelayMs(), MaxDelayMs: nj.Retry.GetMaxDelayMs(),
	}
	ask(nj, job.DefaultsMaxAttempts, &r.MaxAttempts, d.MaxAttempts)
	ask(nj, job.DefaultsBackoff, &r.Backoff, d.Backoff)
	ask(nj, job.DefaultsJitter, &r.JitterPercent, d.JitterPercent)
	ask(nj, job.DefaultsBaseDelay, &r.BaseDelayMs, d.BaseDelayMs)
	ask(nj, job.DefaultsMaxDelay, &r.MaxDelayMs, d.MaxDelayMs)
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
