package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// CancelJobs cancels jobs. A waiting or held job is cancelled at once. An active job is only marked: the next
// heartbeat tells its worker, and the job is cancelled when the worker ends the attempt without completing the
// job, or when the lease or the job expires. Until then the job counts towards its queue's concurrency, because
// the worker may still run it. If the worker acks the job as done, the job is completed all the same.
//
// Cancelling a job again succeeds. An item is refused
//   - with NOT_FOUND if the job is not on this shard,
//   - with STATE_CONFLICT if the job is completed or dead,
//   - with OVERLOADED if the entry is full and the job belongs to a batch or a chain.

// Validate refuses an op that no state could accept.
func (o *CancelJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

func (o *CancelJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, func(tx *state.Tx, j *job.Job) (*JobDone, error) {
		if j.State == job.Cancelled {
			return became(j), nil
		}
		return cancel(tx, j)
	})
}

// cancel cancels a job that has not settled.
func cancel(tx *state.Tx, j *job.Job) (*JobDone, error) {
	if to, ok := job.Transition(j.State, job.OnStop); ok {
		j.State = to
		return stop(tx, j)
	}
	to, ok := job.Transition(j.State, job.OnCancel)
	if !ok {
		return conflict(j, "cancelled", job.Pending, job.Scheduled, job.Retrying, job.Held, job.Active), nil
	}
	j.State = to
	j.Details().CancelledNs = tx.ClockNs()
	if err := settle(tx, j, settlement{}, state.EventType_EVENT_CANCELLED); err != nil {
		return nil, err
	}
	return became(j), nil
}

// stop marks an active job as cancelling. The feed gets no second event if the job was marked before.
func stop(tx *state.Tx, j *job.Job) (*JobDone, error) {
	answer := &JobDone{State: j.State, Pending: true}
	if j.Cancelling {
		return answer, tx.PutJob(j)
	}
	j.Cancelling = true
	return answer, tx.PutJob(j, state.EventType_EVENT_CANCELLING)
}
