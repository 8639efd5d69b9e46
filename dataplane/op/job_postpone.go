package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// postpone makes the scheduled job j due one debounce period of the new job from now, and replaces j's
// payload, tags, headers and priority with those of the new job. It drops everything else in the new job,
// such as retries, expiry and dependencies, because j keeps its own, and some of them have begun. If j is not
// scheduled, the error stops the replica.
func (nj *NewJob) postpone(tx *state.Tx, j *job.Job) error {
	to, ok := job.Transition(j.State, job.OnPostpone)
	if !ok {
		return fmt.Errorf("job %s is %s: it cannot be put off", job.ID(j.Id), j.State.Word())
	}
	j.State = to
	j.ScheduledNs = nj.dueNs(tx.ClockNs())
	j.Tags, j.Headers = nj.Tags, nj.Headers
	j.Priority = nj.resolveDefaults(tx.Queue(nj.Queue).GetDefaults()).priority
	if _, err := putBlob(tx, j, job.Payload, nj.Payload); err != nil {
		return err
	}
	return tx.PutJob(j, state.EventType_EVENT_DEBOUNCED)
}
