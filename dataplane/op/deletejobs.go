package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// DeleteJobs removes jobs with all that belongs to them, in whatever state. One
// that has not settled is cancelled first, since its batch, its chain and those who
// depend on it wait to hear how it ended: so an active one goes when its worker
// lets go of it. An item's refusal is NOT_FOUND.

// Number is DeleteJobs's number in the log.
func (*DeleteJobs) Number() entry.Number { return numDeleteJobs }

// Class is DeleteJobs's place among waiting proposals.
func (*DeleteJobs) Class() pipeline.Class { return table[numDeleteJobs].Class }

// Validate refuses what no state could accept.
func (o *DeleteJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply removes the jobs.
func (o *DeleteJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, remove)
}

// remove deletes a job, or dooms it.
func remove(tx *state.Tx, j *job.Job) (*JobDone, error) {
	if j.State.Settled() {
		return &JobDone{}, tx.DeleteJob(j, state.EventType_EVENT_DELETED)
	}
	j.Doomed = true // settle removes it
	done, err := cancel(tx, j)
	if err != nil || done.Pending {
		return done, err
	}
	return &JobDone{}, nil
}
