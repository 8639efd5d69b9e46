package op

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ending is how an attempt ends without success: the lifecycle's event where
// attempts are left, the one where none is, and what the feed is told.
type ending struct {
	retry, last job.Event
	event       state.EventType
}

var (
	failed    = ending{job.OnRetry, job.OnExhaust, state.EventType_EVENT_FAILED}
	reclaimed = ending{job.OnReclaim, job.OnReclaimLast, state.EventType_EVENT_RECLAIMED}
)

// endAttempt ends j's running attempt: keeps its error and has the job retried
// after its backoff, or dead after its last attempt. A job whose backoff is
// nothing is pending at once.
func endAttempt(tx *state.Tx, j *job.Job, how ending, e *job.AttemptError) error {
	on := how.retry
	if attemptsLeft(j) == 0 {
		on = how.last
	}
	to, ok := job.Next(j.State, on)
	if !ok {
		return fmt.Errorf("job %s is %s: its attempt cannot end by %s", job.ID(j.Id), j.State.Word(), on)
	}
	j.State = to
	j.FailedNs = tx.ClockNs()
	e.Attempt = j.Attempt
	e.CreatedNs = tx.ClockNs()
	if err := tx.PutError(j, e); err != nil {
		return err
	}
	if to == job.Dead {
		return tx.PutJob(j, how.event, state.EventType_EVENT_DEAD)
	}
	delay := j.Retry.DelayMs(j.Attempt)
	j.ScheduledNs = tx.ClockNs() + delay*int64(time.Millisecond)
	if delay > 0 {
		return tx.PutJob(j, how.event, state.EventType_EVENT_RETRYING)
	}
	if j.State, ok = job.Next(to, job.OnPromote); !ok {
		return fmt.Errorf("job %s is %s: it cannot become pending", job.ID(j.Id), to.Word())
	}
	return tx.PutJob(j, how.event, state.EventType_EVENT_RETRYING, state.EventType_EVENT_PROMOTED)
}

// attemptsLeft is how often j may still be tried.
func attemptsLeft(j *job.Job) uint32 {
	most := j.GetRetry().GetMaxAttempts()
	return most - min(j.Attempt, most)
}
