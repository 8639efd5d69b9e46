package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Promote makes due scheduled and retrying jobs pending. The proposer found them due; Apply skips jobs that
// are in another state by now or not due at the entry's clock, and jobs that still wait for others.

// Validate refuses an op that no state could accept.
func (o *Promote) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply promotes the jobs. It refuses nothing.
func (o *Promote) Apply(tx *state.Tx) (*PromoteResult, error) {
	result := &PromoteResult{}
	for _, b := range o.JobIds {
		j, err := jobOf(tx, b)
		if err != nil {
			return nil, err
		}
		to, ok := job.Transition(j.GetState(), job.OnPromote)
		if !ok || j.ScheduledNs > tx.ClockNs() || j.BlockedBy > 0 {
			continue
		}
		j.State = to
		if err := tx.PutJob(j, state.EventType_EVENT_PROMOTED); err != nil {
			return nil, err
		}
		result.Promoted++
	}
	return result, nil
}
