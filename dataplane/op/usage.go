package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// report keeps what a worker reported of j, if it did: sum, which includes the
// report, as the job's usage, and the report itself as a usage row. Whoever
// accepts a report passes it through here and nowhere else, so that each reported
// quantity is in the job's sum once and in one row.
func report(tx *state.Tx, j *job.Job, sum, reported *job.Usage) error {
	j.Usage = sum
	if reported == nil {
		return nil
	}
	return tx.AddUsage(j, reported)
}
