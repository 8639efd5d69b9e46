package op

import (
	"cmp"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// HoldJobs keeps waiting jobs from being fetched until a person approves or rejects them. A held job expires
// like any other. An item is refused
//   - with NOT_FOUND if the job is not on this shard,
//   - with STATE_CONFLICT if the job does not wait, which includes a job that is held already,
//   - with OVERLOADED if the entry is full and the job belongs to a batch or a chain.

// heldReason is the hold reason if the request gives none.
const heldReason = "held by request"

// Validate refuses an op that no state could accept.
func (o *HoldJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	p.add("reason", job.CheckText(o.Reason, job.MaxHoldReason))
	return p.err()
}

func (o *HoldJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, o.hold)
}

func (o *HoldJobs) hold(tx *state.Tx, j *job.Job) (*JobDone, error) {
	if _, ok := job.Transition(j.State, job.OnHold); !ok {
		return conflict(j, "held", job.Pending, job.Scheduled, job.Retrying), nil
	}
	if err := hold(tx, j, job.Hold_HOLD_REQUEST, "", cmp.Or(o.Reason, heldReason)); err != nil {
		return nil, err
	}
	return became(j), nil
}

// hold holds a waiting job until a person approves or rejects it. by is the name of the budget or policy that
// holds the job, or modelHolds and the name of the model without a price, or the id of the dependency. It is
// empty for other holds. In the feed, the causes come before EVENT_HELD.
func hold(tx *state.Tx, j *job.Job, why job.Hold, by, reason string, causes ...state.EventType) error {
	return keep(tx, j, job.OnHold, why, by, reason, causes...)
}

// keep holds a job by an event of the lifecycle that leads to held.
func keep(tx *state.Tx, j *job.Job, on job.Event, why job.Hold, by, reason string, causes ...state.EventType) error {
	to, ok := job.Transition(j.State, on)
	if !ok || to != job.Held {
		return fmt.Errorf("job %s is %s: it cannot be held", job.ID(j.Id), j.State.Word())
	}
	j.State = to
	d := j.Details()
	d.HoldReason, d.Hold, d.HoldBy = reason, why, by
	return tx.PutJob(j, append(causes, state.EventType_EVENT_HELD)...)
}
