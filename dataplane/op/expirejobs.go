package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// ExpireJobs has jobs die whose time is over, whether they wait, are held or run. A
// running one is taken from its worker, which hears of it at its next word; it is
// not tried again. The proposer saw them due; what settled or was revived since is
// skipped.

// overError is the error a job is kept with whose time was over.
const overError = "expired"

// Number is ExpireJobs's number in the log.
func (*ExpireJobs) Number() entry.Number { return numExpireJobs }

// Class is ExpireJobs's place among waiting proposals.
func (*ExpireJobs) Class() pipeline.Class { return table[numExpireJobs].Class }

// Validate refuses what no state could accept.
func (o *ExpireJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply ends the jobs. It refuses nothing.
func (o *ExpireJobs) Apply(tx *state.Tx) (*ExpireJobsResult, error) {
	result := &ExpireJobsResult{}
	for _, b := range o.JobIds {
		if tx.Full() {
			break // the others stay due
		}
		j, err := jobOf(tx, b)
		if err != nil {
			return nil, err
		}
		if j == nil || !timeIsOver(tx, j) {
			continue
		}
		if err := expireJob(tx, j); err != nil {
			return nil, err
		}
		result.Expired++
	}
	return result, nil
}

// timeIsOver says whether a job has had its time and has not settled in it.
func timeIsOver(tx *state.Tx, j *job.Job) bool {
	return j.Detail.GetExpireNs() > 0 && j.Detail.GetExpireNs() <= tx.ClockNs() && !j.State.Settled()
}

// expireJob ends a job whose time is over. Where it is active its worker has not
// let go of it, so that from now on, as after a lease that ran out, nobody is
// believed who does not prove whose the job is. One that was to be let go is
// cancelled: that was asked for before.
func expireJob(tx *state.Tx, j *job.Job) error {
	if j.State == job.Active {
		j.LeaseExpired = true
		j.Lease.LastRequest = nil // no request has ended this attempt
	}
	why := &job.AttemptError{Error: overError, Outcome: job.Expired}
	if j.Cancelling {
		return letGo(tx, j, why, state.EventType_EVENT_EXPIRED)
	}
	return die(tx, j, job.OnExpire, why, state.EventType_EVENT_EXPIRED)
}
