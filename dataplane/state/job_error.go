package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// LastError returns the highest attempt with a stored error of a job that the entry has read, or 0 if there
// is none.
func (tx *Tx) LastError(j *job.Job) (attempt uint32, err error) {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return 0, tx.fail(err)
	}
	h, err := tx.entryJob(id)
	if err != nil {
		return 0, err
	}
	if err := tx.readAttempts(h, j); err != nil {
		return 0, tx.fail(fmt.Errorf("errors of job %s: %w", id, err))
	}
	if n := len(h.attempts); n > 0 {
		attempt = h.attempts[n-1]
	}
	return attempt, nil
}
