package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// RejectJobs rejects held jobs: they die with the reason as their error. An item is refused with NOT_FOUND if
// its job is not on this shard, with STATE_CONFLICT if the job is not held, or with OVERLOADED if the job
// belongs to a batch or a chain and the entry is full.

// rejectedError is the error if the request gives no reason.
const rejectedError = "rejected"

// Validate refuses an op that no state could accept.
func (o *RejectJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	p.add("reason", job.CheckText(o.Reason, job.MaxHoldReason))
	return p.err()
}

// Apply rejects the jobs.
func (o *RejectJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, o.reject)
}

func (o *RejectJobs) reject(tx *state.Tx, j *job.Job) (*JobDone, error) {
	if _, ok := job.Transition(j.State, job.OnReject); !ok {
		return conflict(j, "rejected", job.Held), nil
	}
	why := &job.AttemptError{Error: o.Reason, Outcome: job.Rejected}
	if why.Error == "" {
		why.Error = rejectedError
	}
	if err := die(tx, j, job.OnReject, why, state.EventType_EVENT_REJECTED); err != nil {
		return nil, err
	}
	return became(j), nil
}
