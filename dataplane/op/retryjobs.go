package op

import (
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// RetryJobs makes settled jobs run again, at their old place in the queue and from their checkpoint. A retry
// starts at the first attempt and deletes the result and the records of earlier attempts, iterations
// included. It keeps the mark that a lease of the job has expired, because that lease's worker may still run.
// A requeue, which only dead jobs accept, keeps attempts and errors and grants all attempts anew. The job's
// batch, chain and dependents have seen its first outcome and do not see the second.
//
// An item is refused with NOT_FOUND if its job is not on this shard; with STATE_CONFLICT if the job has not
// settled, or for a requeue is not dead; with CONFLICT if another job now holds the job's unique key; or with
// OVERLOADED if the job belongs to a batch or a chain and the entry is full. A job whose key's period is over
// does not take the key again.

// Validate refuses an op that no state could accept.
func (o *RetryJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply revives the jobs.
func (o *RetryJobs) Apply(tx *state.Tx) (*JobsResult, error) {
	return actOn(tx, o.JobIds, o.revive)
}

func (o *RetryJobs) revive(tx *state.Tx, j *job.Job) (*JobDone, error) {
	to, ok := job.Transition(j.State, job.OnRevive)
	switch {
	case o.Requeue && j.State != job.Dead:
		return conflict(j, "requeued", job.Dead), nil
	case !ok:
		return conflict(j, "retried", job.Dead, job.Cancelled, job.Completed), nil
	}
	if refused, err := claimKey(tx, j); err != nil || refused != nil {
		return &JobDone{Refusal: refused}, err
	}
	grant := startOver
	if o.Requeue {
		grant = goOn
	}
	if err := grant(tx, j); err != nil {
		return nil, err
	}
	j.State = to
	unsettle(tx, j)
	return became(j), tx.PutJob(j, state.EventType_EVENT_REVIVED)
}

// claimKey lets a job take its unique key again and frees the key if the period of another holder is over. It
// refuses with CONFLICT if another job holds the key.
func claimKey(tx *state.Tx, j *job.Job) (*Refusal, error) {
	if j.Options.GetUniqueKey() == "" || j.Detail.GetUniqueExpiresNs() <= tx.ClockNs() {
		return nil, nil
	}
	k := jobKey{state.LockUnique, j.Queue, j.Options.GetUniqueKey()}
	owner, taken, err := k.holder(tx)
	switch {
	case err != nil || owner == job.ID(j.Id):
		return nil, err
	case taken:
		return refuse(api.Conflict, "job %s cannot run again: job %s has its unique key by now; wait until that settles, or cancel it", job.ID(j.Id), owner), nil
	}
	return nil, freeUnique(tx, j.Queue, j.Options.GetUniqueKey())
}

// startOver deletes the attempts, errors, iterations and result of a job, so that it is as before its first
// fetch, except that the checkpoint stays.
func startOver(tx *state.Tx, j *job.Job) error {
	j.Attempt, j.AttemptBase, j.StartedNs, j.Lease = 0, 0, 0, nil
	if err := forgetIterations(tx, j); err != nil {
		return err
	}
	if err := tx.DeleteErrors(j); err != nil {
		return err
	}
	return tx.DeleteBlob(j, job.Result)
}

// forgetIterations resets an agent's job to its first iteration, and a replay to the iteration that it
// continues from. The job may spend its whole max_cost again.
func forgetIterations(tx *state.Tx, j *job.Job) error {
	if j.Options.GetAgent() == nil && j.Detail.GetIteration() == 0 {
		return nil
	}
	d := j.Details()
	d.UsageBefore, d.SpentBeforeNanoUsd, d.CostWaived = j.Usage, -j.Usage.GetCostNanoUsd(), false
	if err := tx.DeleteIterations(j); err != nil {
		return err
	}
	if from := j.Options.GetReplayFrom(); from > 0 {
		d.Iteration = from - 1
	}
	return nil
}

// goOn grants a job all its attempts anew. Their numbers follow the last recorded one, which may be of an attempt
// that was never granted, so that no number is used twice.
func goOn(tx *state.Tx, j *job.Job) error {
	last, err := tx.LastError(j)
	if err != nil {
		return err
	}
	j.Attempt = max(j.Attempt, last)
	j.AttemptBase = j.Attempt
	if j.Lease != nil {
		j.Lease.LastRequest = nil // the request belongs to the time before the requeue
	}
	return nil
}

// unsettle clears the fields that were set when the job settled or was held, makes the job due now and
// restarts its expiry. It also ends a unique key whose period is over.
func unsettle(tx *state.Tx, j *job.Job) {
	j.CompletedNs, j.FailedNs, j.SettledNs, j.BlockedBy = 0, 0, 0, 0
	j.ScheduledNs = tx.ClockNs()
	d := j.Details()
	d.CancelledNs, d.ExpireNs = 0, 0
	d.HoldReason, d.Hold, d.HoldBy = "", job.Hold_HOLD_REQUEST, ""
	if ms := j.Options.GetExpireAfterMs(); ms > 0 {
		d.ExpireNs = tx.ClockNs() + ms*int64(time.Millisecond)
	}
	if d.UniqueExpiresNs <= tx.ClockNs() {
		d.UniqueExpiresNs = 0
	}
}
