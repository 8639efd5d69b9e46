package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// settlement is what is known of a job's end besides its record.
type settlement struct {
	result *job.Blob // what it completed with; nil for nothing
	exit   bool      // its chain ends with it, though it succeeded
	err    string    // why it is dead
}

// settle puts a job that has been given a settled state, with its events, and does
// for it what others wait for. Every op that ends a job does it here and nowhere
// else: state refuses a job that settles while something is owed.
func settle(tx *state.Tx, j *job.Job, how settlement, events ...state.EventType) error {
	j.Cancelling = false
	j.BlockedBy = 0 // it waits for nobody any more
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

// crowded refuses to end a job whose end others wait for in an entry that is full.
// The client is to try again; with jobs that nothing follows it has no such trouble.
func crowded(tx *state.Tx, j *job.Job) *Refusal {
	if !tx.Full() || j.Batch == nil && j.Chain == nil {
		return nil
	}
	return refuse(api.Overloaded, "too much follows from the jobs that end together with job %s: try again", job.ID(j.Id))
}

// keptUntil returns when something that comes to an end now, in a settled state, is
// removed: the namespace says how long it is kept, or the default. 0 is never.
func keptUntil(tx *state.Tx, s job.State) int64 {
	kept := job.Kept(s, tx.Head().GetSettings().GetRetention())
	if kept < 0 {
		return 0
	}
	return tx.ClockNs() + int64(kept)
}
