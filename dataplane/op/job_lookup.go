package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// jobOf returns the job with an id that an op carries, or nil if the job is not on this shard. A malformed id
// is an error that stops the replica, because Validate should have refused it.
func jobOf(tx *state.Tx, id []byte) (*job.Job, error) {
	parsed, err := job.IDFromBytes(id)
	if err != nil {
		return nil, err
	}
	return tx.Job(parsed)
}
