package op

import (
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// PurgeJobs removes settled jobs, with all that belongs to them, whose retention is
// over. The proposer saw them due; a job that is gone or was revived since is skipped, and
// so is one whose queue or namespace keeps it for longer by now.

// Number is PurgeJobs's number in the log.
func (*PurgeJobs) Number() entry.Number { return numPurgeJobs }

// Class is PurgeJobs's place among waiting proposals.
func (*PurgeJobs) Class() pipeline.Class { return table[numPurgeJobs].Class }

// Validate refuses what no state could accept.
func (o *PurgeJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply removes the jobs. It refuses nothing.
func (o *PurgeJobs) Apply(tx *state.Tx) (*PurgeJobsResult, error) {
	result := &PurgeJobsResult{}
	for _, b := range o.JobIds {
		j, err := jobOf(tx, b)
		if err != nil {
			return nil, err
		}
		if j == nil {
			continue
		}
		over, err := tx.RetentionOver(j)
		if err != nil {
			return nil, err
		}
		if !over {
			continue
		}
		if err := tx.DeleteJob(j, state.EventType_EVENT_PURGED); err != nil {
			return nil, err
		}
		result.Purged++
	}
	return result, nil
}
