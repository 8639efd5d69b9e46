package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// jobOf is the job whose id an op carries; nil when there is none. An id that is
// none got past the proposer, which is impossible: it stops the replica.
func jobOf(tx *state.Tx, id []byte) (*job.Job, error) {
	parsed, err := job.IDFromBytes(id)
	if err != nil {
		return nil, err
	}
	return tx.Job(parsed)
}
