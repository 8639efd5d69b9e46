package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// LastError returns the number of the last attempt of j that has a stored error, or 0 if there is none. The
// entry must have read j.
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
