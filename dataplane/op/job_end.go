package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// This file ends jobs that are not tried again, whatever retries they have left.

// die ends a job that gets no further attempt, by an event that leads to dead. why has the reason and the
// outcome. In the feed, the events in causes come before EVENT_DEAD.
func die(tx *state.Tx, j *job.Job, on job.Event, why *job.AttemptError, causes ...state.EventType) error {
	to, ok := job.Transition(j.State, on)
	if !ok || to != job.Dead {
		return fmt.Errorf("job %s is %s: it cannot die by %s", job.ID(j.Id), j.State.Word(), on)
	}
	if err := keepError(tx, j, why); err != nil {
		return err
	}
	if err := releaseReservation(tx, j); err != nil {
		return err
	}
	j.State = to
	j.FailedNs = tx.ClockNs()
	return settle(tx, j, settlement{err: why.Error}, append(causes, state.EventType_EVENT_DEAD)...)
}

// letGo cancels an active job with a pending cancellation, after its attempt has ended without success. why
// has the error text of the attempt: the worker's, or a text that the lease or the job has expired. letGo
// sets the outcome. The feed gets the given events and then EVENT_CANCELLED.
func letGo(tx *state.Tx, j *job.Job, why *job.AttemptError, events ...state.EventType) error {
	why.Outcome = job.GivenUp
	if err := keepError(tx, j, why); err != nil {
		return err
	}
	return cancelled(tx, j, events...)
}

// cancelled cancels an active job with a pending cancellation, as letGo does, but stores no error.
func cancelled(tx *state.Tx, j *job.Job, events ...state.EventType) error {
	to, ok := job.Transition(j.State, job.OnLetGo)
	if !ok {
		return fmt.Errorf("job %s is %s: no attempt can end", job.ID(j.Id), j.State.Word())
	}
	if err := releaseReservation(tx, j); err != nil {
		return err
	}
	j.State = to
	j.Details().CancelledNs = tx.ClockNs()
	return settle(tx, j, settlement{}, append(events, state.EventType_EVENT_CANCELLED)...)
}

// keepError stores why j ends or why its attempt ends. The caller changes j's state only after this call. For
// an active job the error belongs to the running attempt. For any other job it belongs to the attempt that the
// job will not get. That attempt has no worker and no start, but a number of its own, because under the
// previous number it would replace the previous attempt's error.
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
