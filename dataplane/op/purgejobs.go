package op

import (
	"github.com/corvo/corvo/dataplane/state"
)

// PurgeJobs removes settled jobs whose retention is over, with everything that belongs to them. The proposer
// found them due; Apply skips a job that is gone, has been made to run again, still holds its unique key, or
// is kept for longer by a changed retention of its queue or namespace.

// Validate refuses an op that no state could accept.
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
