package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// DeleteJob removes a settled job with its blobs, errors, iterations and scores, and appends the event to the
// feed. The entry must have read the job and not changed it since its last put. The queue's totals stay.
func (tx *Tx) DeleteJob(j *job.Job, event EventType) error {
	if err := tx.deleteJob(j, event); err != nil {
		return tx.fail(fmt.Errorf("delete job %x of queue %q: %w", j.Id, j.Queue, err))
	}
	return nil
}

func (tx *Tx) deleteJob(j *job.Job, event EventType) error {
	h, err := tx.movable(j)
	if err != nil {
		return err
	}
	if !j.State.Settled() {
		return fmt.Errorf("it is %s", j.State.Word())
	}
	if err := tx.readAttempts(h, j); err != nil {
		return err
	}
	tx.event(event, j.Queue, j)
	if err := tx.withdraw(h); err != nil {
		return err
	}
	if err := tx.removeDocuments(h); err != nil {
		return err
	}
	if err := tx.removeJudgements(h); err != nil {
		return err
	}
	h.job, h.queue = nil, nil
	return nil
}
