package op

import (
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
	to, ok := job.Next(j.State, job.OnHold)
	if !ok {
		return conflict(j, "held", job.Pending, job.Scheduled, job.Retrying), nil
	}
	j.State = to
	j.HoldReason = o.Reason
	if j.HoldReason == "" {
		j.HoldReason = heldReason
	}
	return became(j), tx.PutJob(j, state.EventType_EVENT_HELD)
}
