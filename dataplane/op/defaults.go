package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// terms are what a job is run on: its client's word, else its queue's, else what is
// always taken.
type terms struct {
	priority      uint32
	retry         *job.Retry
	expireAfterMs int64
}

// terms asks the queue for what the client left open. That is done when the op is
// applied, not by who proposes it: only then is it certain what the queue says.
func (nj *NewJob) terms(d *state.QueueDefaults) terms {
	t := terms{nj.Priority, nj.Retry, nj.Options.GetExpireAfterMs()}
	if nj.Defaults == 0 || d.SizeVT() == 0 { // also where the queue has taken back what it said
		return t
	}
	ask(nj, job.DefaultsPriority, &t.priority, d.Priority)
	ask(nj, job.DefaultsExpireAfter, &t.expireAfterMs, d.ExpireAfterMs)
	t.retry = nj.retryTerms(d)
	return t
}

// ask takes the queue's word for a value the client left open, where it has one.
func ask[T any](nj *NewJob, left uint32, value *T, queues *T) {
	if nj.Defaults&left != 0 && queues != nil {
		*value = *queues
	}
}

// retryTerms is the job's retry policy. Where its two delays come from different
// sides and contradict each other, the one that was said with less weight gives way:
// the client's word stands over the queue's, and that over what is always taken.
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

// weight says who decided a delay: 2 the client, 1 the queue, 0 nobody.
func (nj *NewJob) weight(left uint32, queues *int64) int {
	switch {
	case nj.Defaults&left == 0:
		return 2
	case queues != nil:
		return 1
	}
	return 0
}
