package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ExpireJobs ends jobs that have reached their expiry, whether they wait, are held or run. A running job is
// taken from its worker, which learns of it with its next request, and is not tried again. The proposer found
// the jobs due. Apply skips a job that is gone, has settled, or expires later because it was retried. Once the
// entry is full, the other jobs stay due.

// overError is the error text of an expired job.
const overError = "expired"

// Validate refuses an op that no state could accept.
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

// timeIsOver reports whether a job has reached its expiry without settling.
func timeIsOver(tx *state.Tx, j *job.Job) bool {
	return j.Detail.GetExpireNs() > 0 && j.Detail.GetExpireNs() <= tx.ClockNs() && !j.State.Settled()
}

// expireJob ends a job that has reached its expiry. The worker of an active job has not ended its attempt, so
// from now on a worker must prove that a lease of the job was its own, as after an expired lease. A job with a
// pending cancellation is cancelled instead of dead, because the cancellation was requested first.
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
