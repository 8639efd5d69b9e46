package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// ReleaseJobs lets held jobs run, at once: neither for a due time nor for other
// jobs do they wait any more. An item's refusal is NOT_FOUND, or STATE_CONFLICT for
// a job that is not held.

// Number is ReleaseJobs's number in the log.
func (*ReleaseJobs) Number() entry.Number { return numReleaseJobs }

// Class is ReleaseJobs's place among waiting proposals.
func (*ReleaseJobs) Class() pipeline.Class { return table[numReleaseJobs].Class }

// Validate refuses what no state could accept.
func (o *ReleaseJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply releases the jobs.
func (o *ReleaseJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, func(tx *state.Tx, j *job.Job) (*JobDone, error) {
		to, ok := job.Next(j.State, job.OnApprove)
		if !ok {
			return conflict(j, "approved", job.Held), nil
		}
		j.State = to
		j.HoldReason = ""
		j.BlockedBy = 0
		j.ScheduledNs = tx.ClockNs()
		return became(j), tx.PutJob(j, state.EventType_EVENT_APPROVED)
	})
}
