package op

import (
	"time"

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
	j.PurgeNs = purgeAt(tx, j)
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

// purgeAt is when a job that settles now is removed: its queue says how long it is
// kept, else the namespace, else the default. One that keeps its unique key is not
// removed before that is free, or the key would be free too. 0 is never.
func purgeAt(tx *state.Tx, j *job.Job) int64 {
	at := keptUntil(tx, j.State, tx.Queue(j.Queue).GetRetention())
	if at > 0 && j.Options.GetUniqueWholePeriod() {
		at = max(at, j.Detail.GetUniqueExpiresNs())
	}
	return at
}

// keptUntil is when what comes to an end now, in a settled state, is removed: own
// says how long it is kept, else the namespace, else the default. 0 is never.
func keptUntil(tx *state.Tx, s job.State, own *job.Retention) int64 {
	kept := int64(0)
	for _, r := range [...]*job.Retention{own, tx.Head().GetSettings().GetRetention(), job.DefaultRetention()} {
		if kept = r.Of(s); kept != 0 {
			break
		}
	}
	if kept < 0 {
		return 0
	}
	return tx.ClockNs() + kept*int64(time.Millisecond)
}
