package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// settlement is the information about a job's end that its record does not have.
type settlement struct {
	result *job.Blob // its result; nil for none
	exit   bool      // the chain ends with this step, though the step succeeded
	err    string    // why it is dead
}

// settle stores a job that has received a settled state and adds the events to the feed. It updates the
// records that wait for the job: batch, chain and dependents. It then deletes the job if the job is marked
// for removal. Every op that ends a job calls settle, because state refuses a job that settles while one of
// these updates is missing.
func settle(tx *state.Tx, j *job.Job, how settlement, events ...state.EventType) error {
	j.Cancelling = false
	j.BlockedBy = 0 // it no longer waits for other jobs
	j.SettledNs = tx.ClockNs()
	if err := countInBatch(tx, j); err != nil {
		return err
	}
	if err := advanceChain(tx, j, how); err != nil {
		return err
	}
	if err := settleDependents(tx, j); err != nil {
		return err
	}
	if err := tx.PutJob(j, events...); err != nil {
		return err
	}
	if j.Doomed {
		return tx.DeleteJob(j, state.EventType_EVENT_DELETED)
	}
	return nil
}

// crowded refuses an op on a job of a batch or a chain with OVERLOADED if the entry is full, because the end
// of that job causes more ops. The client should then try again. crowded returns nil for all other jobs.
// actOn calls it for every action, even for one that does not end the job.
func crowded(tx *state.Tx, j *job.Job) *Refusal {
	if !tx.Full() || j.Batch == nil && j.Chain == nil {
		return nil
	}
	return refuse(api.Overloaded, "the jobs that end together with job %s have too many consequences for one write: try again", job.ID(j.Id))
}

// keptUntil returns the time when a batch that completes now is removed. s is the batch's outcome. The
// namespace's retention decides, or the default. 0 means never.
func keptUntil(tx *state.Tx, s job.State) int64 {
	kept := job.Kept(s, tx.Head().GetSettings().GetRetention())
	if kept < 0 {
		return 0
	}
	return tx.ClockNs() + int64(kept)
}
