package op

import (
	"cmp"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// HoldJobs keeps jobs that wait from being fetched, until a person says what
// becomes of them. Their time goes on: a held job expires like any other. An item's
// refusal is NOT_FOUND, or STATE_CONFLICT for a job that does not wait.

// heldReason is why a job is held where the request does not say.
const heldReason = "held by request"

// Number is HoldJobs's number in the log.
func (*HoldJobs) Number() entry.Number { return numHoldJobs }

// Class is HoldJobs's place among waiting proposals.
func (*HoldJobs) Class() pipeline.Class { return table[numHoldJobs].Class }

// Validate refuses what no state could accept.
func (o *HoldJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	p.add("reason", job.CheckText(o.Reason, job.MaxHoldReason))
	return p.err()
}

// Apply holds the jobs.
func (o *HoldJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, o.hold)
}

func (o *HoldJobs) hold(tx *state.Tx, j *job.Job) (*JobDone, error) {
	if _, ok := job.Next(j.State, job.OnHold); !ok {
		return conflict(j, "held", job.Pending, job.Scheduled, job.Retrying), nil
	}
	if err := hold(tx, j, job.Hold_HOLD_REQUEST, "", cmp.Or(o.Reason, heldReason)); err != nil {
		return nil, err
	}
	return became(j), nil
}

// hold keeps a job that waits until a person says what becomes of it. by is the name
// of the budget or policy that did it; the feed is told of the causes first.
func hold(tx *state.Tx, j *job.Job, why job.Hold, by, reason string, causes ...state.EventType) error {
	return keep(tx, j, job.OnHold, why, by, reason, causes...)
}

// keep is hold by an event that leads to held.
func keep(tx *state.Tx, j *job.Job, on job.Event, why job.Hold, by, reason string, causes ...state.EventType) error {
	to, ok := job.Next(j.State, on)
	if !ok || to != job.Held {
		return fmt.Errorf("job %s is %s: it cannot be held", job.ID(j.Id), j.State.Word())
	}
	j.State = to
	d := j.Details()
	d.HoldReason, d.Hold, d.HoldBy = reason, why, by
	return tx.PutJob(j, append(causes, state.EventType_EVENT_HELD)...)
}
