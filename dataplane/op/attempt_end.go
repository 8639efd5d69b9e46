package op

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ending describes how an attempt ends without success: the lifecycle event if attempts are left, the lifecycle
// event if none is left, the event for the feed, and the outcome that is stored with the attempt.
type ending struct {
	retry, last job.Event
	event       state.EventType
	outcome     job.Outcome
}

var (
	failed    = ending{job.OnRetry, job.OnExhaust, state.EventType_EVENT_FAILED, job.Failed}
	reclaimed = ending{job.OnReclaim, job.OnReclaimLast, state.EventType_EVENT_RECLAIMED, job.Reclaimed}
)

// endAttempt ends j's running attempt without success and keeps its error. A job with a pending cancellation
// is cancelled. Any other job without attempts left is dead. A failed job with attempts left is retried after
// its backoff, or is pending at once if the backoff is zero. A job whose lease expired is pending at once,
// because it has waited a whole lease already. A job that goes on keeps its number, and so its place among
// the jobs of its priority.
func endAttempt(tx *state.Tx, j *job.Job, how ending, e *job.AttemptError) error {
	if j.Cancelling {
		return letGo(tx, j, e)
	}
	on := how.retry
	if attemptsLeft(j) == 0 {
		on = how.last
	}
	to, ok := job.Transition(j.State, on)
	if !ok {
		return fmt.Errorf("job %s is %s: its attempt cannot end by %s", job.ID(j.Id), j.State.Word(), on)
	}
	if err := releaseReservation(tx, j); err != nil {
		return err
	}
	e.Outcome = how.outcome
	if err := keepError(tx, j, e); err != nil {
		return err
	}
	j.State = to
	j.FailedNs = tx.ClockNs()
	switch to {
	case job.Dead:
		return settle(tx, j, settlement{err: e.Error}, how.event, state.EventType_EVENT_DEAD)
	case job.Pending:
		j.ScheduledNs = tx.ClockNs()
		return tx.PutJob(j, how.event)
	}
	delay := j.Retry.VariedDelayMs(job.ID(j.Id), attemptsMade(j))
	j.ScheduledNs = tx.ClockNs() + delay*int64(time.Millisecond)
	if delay > 0 {
		return tx.PutJob(j, how.event, state.EventType_EVENT_RETRYING)
	}
	if j.State, ok = job.Transition(to, job.OnPromote); !ok {
		return fmt.Errorf("job %s is %s: it cannot become pending", job.ID(j.Id), to.Word())
	}
	return tx.PutJob(j, how.event, state.EventType_EVENT_RETRYING, state.EventType_EVENT_PROMOTED)
}

// attemptsLeft returns the number of attempts that j still has.
func attemptsLeft(j *job.Job) uint32 {
	most := j.GetRetry().GetMaxAttempts()
	return most - min(attemptsMade(j), most)
}

// attemptsMade returns the number of j's attempts since it last received all its attempts: when it was
// enqueued, retried, requeued or moved with reset_attempts, or when its agent ended an iteration and the job
// went on.
func attemptsMade(j *job.Job) uint32 { return j.Attempt - min(j.AttemptBase, j.Attempt) }
