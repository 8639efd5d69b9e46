package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// CancelJobs gives jobs up. One that waits or is held is cancelled at once. One
// that is active is only marked: its worker is told at its next heartbeat, and the
// job is cancelled when the worker lets go of it or its lease ends. Until then it
// takes its queue's concurrency, for the worker may still be at it; and a worker
// that succeeds before it hears of it has completed the job. A job that is
// cancelled, or about to be, is done again. An item's refusal is NOT_FOUND, or
// STATE_CONFLICT for a job that has settled otherwise.

// Number is CancelJobs's number in the log.
func (*CancelJobs) Number() entry.Number { return numCancelJobs }

// Class is CancelJobs's place among waiting proposals.
func (*CancelJobs) Class() pipeline.Class { return table[numCancelJobs].Class }

// Validate refuses what no state could accept.
func (o *CancelJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply cancels the jobs.
func (o *CancelJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, func(tx *state.Tx, j *job.Job) (*JobDone, error) {
		if j.State == job.Cancelled {
			return became(j), nil
		}
		return cancel(tx, j)
	})
}

// cancel gives a job up that has not settled.
func cancel(tx *state.Tx, j *job.Job) (*JobDone, error) {
	if to, ok := job.Next(j.State, job.OnStop); ok {
		j.State = to
		return stop(tx, j)
	}
	to, ok := job.Next(j.State, job.OnCancel)
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

// stop marks an active job, once.
func stop(tx *state.Tx, j *job.Job) (*JobDone, error) {
	answer := &JobDone{State: j.State, Pending: true}
	if j.Cancelling {
		return answer, tx.PutJob(j)
	}
	j.Cancelling = true
	return answer, tx.PutJob(j, state.EventType_EVENT_CANCELLING)
}
