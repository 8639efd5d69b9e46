package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ReleaseUnique frees unique keys whose period is over. Their jobs continue without a key. The proposer lists jobs
// whose period is over. Apply checks each again and skips a job that is gone, has no key, has a period that is not
// over by the entry's time, or does not hold its key any more.

// Validate refuses an op that no state could accept.
func (o *ReleaseUnique) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply frees the keys. It refuses nothing.
func (o *ReleaseUnique) Apply(tx *state.Tx) (*ReleaseUniqueResult, error) {
	result := &ReleaseUniqueResult{}
	for _, b := range o.JobIds {
		j, err := jobOf(tx, b)
		if err != nil {
			return nil, err
		}
		if j.GetDetail().GetUniqueExpiresNs() == 0 || j.Detail.GetUniqueExpiresNs() > tx.ClockNs() {
			continue
		}
		// Without unique_whole_period, a key is free once its job has settled, so another job may hold it.
		owner, taken, err := tx.Locked(state.LockUnique, j.Queue, j.Options.GetUniqueKey())
		if err != nil {
			return nil, err
		}
		if !taken || owner != job.ID(j.Id) {
			continue
		}
		j.Details().UniqueExpiresNs = 0
		if err := tx.PutJob(j, state.EventType_EVENT_UNLOCKED); err != nil {
			return nil, err
		}
		result.Released++
	}
	return result, nil
}
