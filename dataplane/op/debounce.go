package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// postpone has a scheduled job wait anew for as long as this one would, and be what
// this one would be: its payload, tags, headers and priority. What else this one says
// (retries, expiry, what it waits for) is dropped: j was made with its own, and some
// of that has begun.
func (nj *NewJob) postpone(tx *state.Tx, j *job.Job) error {
	to, ok := job.Next(j.State, job.OnPostpone)
	if !ok {
		return fmt.Errorf("job %s is %s: it cannot be put off", job.ID(j.Id), j.State.Word())
	}
	j.State = to
	j.ScheduledNs = nj.dueNs(tx.ClockNs())
	j.Tags, j.Headers = nj.Tags, nj.Headers
	j.Priority = nj.terms(tx.Queue(nj.Queue).GetDefaults()).priority
	if _, err := putBlob(tx, j, job.Payload, nj.Payload); err != nil {
		return err
	}
	return tx.PutJob(j, state.EventType_EVENT_DEBOUNCED)
}
