package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// ReleaseUnique frees unique keys whose period is over. The jobs go on as they are,
// without a key. The proposer saw the periods over; a job that has no key, or not
// any more, is skipped.

// Number is ReleaseUnique's number in the log.
func (*ReleaseUnique) Number() entry.Number { return numReleaseUnique }

// Class is ReleaseUnique's place among waiting proposals.
func (*ReleaseUnique) Class() pipeline.Class { return table[numReleaseUnique].Class }

// Validate refuses what no state could accept.
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
		// Without the period a key is free once its job has settled, and may be another's.
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
