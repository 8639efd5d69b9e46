package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// How jobs end that are not tried again, whatever retries they have left.

// die ends a job that is to get no further attempt, by an event that leads to dead.
// why says the reason and its outcome; the feed is told of the causes first.
func die(tx *state.Tx, j *job.Job, on job.Event, why *job.AttemptError, causes ...state.EventType) error {
	to, ok := job.Next(j.State, on)
	if !ok || to != job.Dead {
		return fmt.Errorf("job %s is %s: it cannot die by %s", job.ID(j.Id), j.State.Word(), on)
	}
	if err := keepError(tx, j, why); err != nil {
		return err
	}
	if err := giveUp(tx, j); err != nil {
		return err
	}
	j.State = to
	j.FailedNs = tx.ClockNs()
	return settle(tx, j, settlement{err: why.Error}, append(causes, state.EventType_EVENT_DEAD)...)
}

// letGo cancels an active job that was to be cancelled, now that its attempt ends
// without success. why says what its worker said, if it did. The feed is not told
// that the attempt failed: that is what was asked for.
func letGo(tx *state.Tx, j *job.Job, why *job.AttemptError, events ...state.EventType) error {
	why.Outcome = job.GivenUp
	if err := keepError(tx, j, why); err != nil {
		return err
	}
	return cancelled(tx, j, events...)
}

// cancelled is letGo where no attempt is to be remembered.
func cancelled(tx *state.Tx, j *job.Job, events ...state.EventType) error {
	to, ok := job.Next(j.State, job.OnLetGo)
	if !ok {
		return fmt.Errorf("job %s is %s: nobody can let go of it", job.ID(j.Id), j.State.Word())
	}
	if err := giveUp(tx, j); err != nil {
		return err
	}
	j.State = to
	j.Details().CancelledNs = tx.ClockNs()
	return settle(tx, j, settlement{}, append(events, state.EventType_EVENT_CANCELLED)...)
}

// keepError keeps why j's attempt ends, before j's state changes: the running one,
// or of a job that waits the one it does not get any more. That has no worker and
// no start, but a number of its own: under the number of the attempt before it
// would take the place of that one's error.
func keepError(tx *state.Tx, j *job.Job, e *job.AttemptError) error {
	e.CreatedNs = tx.ClockNs()
	e.Attempt = j.Attempt + 1
	if j.State == job.Active {
		e.Attempt = j.Attempt
		e.WorkerId = j.Lease.GetWorkerId()
		e.StartedNs = j.StartedNs
	}
	return tx.PutError(j, e)
}
