package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// DeleteJobs removes jobs in any state with everything that belongs to them. A job that has not settled is
// cancelled first, because its batch, its chain and the jobs that depend on it wait for its outcome. An active
// job is therefore removed when its attempt ends. An item is refused with NOT_FOUND if the job is not on this
// shard, and with OVERLOADED if the entry is full and the job belongs to a batch or a chain.

// Validate refuses an op that no state could accept.
func (o *DeleteJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

func (o *DeleteJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, remove)
}

// remove deletes a settled job. It marks a job in another state for removal and cancels it.
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
