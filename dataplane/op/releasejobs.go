package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ReleaseJobs approves held jobs: they become pending at once and wait neither for a due time nor for other
// jobs. The op may change the payload, the checkpoint and the agent's limits of a single job. An approval
// policy that held the job never holds it again. A job that was held because its model has no price is never
// held for that model again.
//
// An item is refused with NOT_FOUND if its job is not on this shard; with STATE_CONFLICT if the job is not
// held; with STATE_CONFLICT also if the op changes the agent's limits, but the job has no agent or has
// already reached one of the limits after the change; with BUDGET_EXCEEDED if a budget holds the job and a
// budget would hold or reject it again; or with OVERLOADED if the job belongs to a batch or a chain and the
// entry is full.

// Validate refuses an op that no state could accept.
func (o *ReleaseJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	o.Changes.check(&p, len(o.JobIds))
	p.whole(o)
	return p.err()
}

// Apply releases the jobs.
func (o *ReleaseJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, o.release)
}

func (o *ReleaseJobs) release(tx *state.Tx, j *job.Job) (*JobDone, error) {
	to, ok := job.Transition(j.State, job.OnApprove)
	if !ok {
		return conflict(j, "approved", job.Held), nil
	}
	if refused := o.Changes.refuse(j); refused != nil {
		return &JobDone{Refusal: refused}, nil
	}
	if refused, err := stillShort(tx, j, o.Changes.options(j)); err != nil || refused != nil {
		return &JobDone{Refusal: refused}, err
	}
	changed, err := o.Changes.apply(tx, j)
	if err != nil {
		return nil, err
	}
	waive(tx, j)
	j.State = to
	waiveModel(j)
	d := j.Details()
	d.CostWaived = o.Changes.GetAgent() == nil && (d.CostWaived || d.Hold == job.Hold_HOLD_MAX_COST)
	d.HoldReason, d.Hold, d.HoldBy = "", job.Hold_HOLD_REQUEST, ""
	j.BlockedBy = 0
	j.ScheduledNs = tx.ClockNs()
	return became(j), tx.PutJob(j, append(changed, state.EventType_EVENT_APPROVED)...)
}
