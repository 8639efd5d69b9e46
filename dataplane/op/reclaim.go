package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Reclaim ends the attempts whose lease has expired. The attempt counts and its error is kept. The job
// becomes pending at once, dead after its last attempt, or cancelled if a cancellation waited for the worker.
// Reclaim marks the jobs: from then on only a token or a worker id proves a lease of them. The proposer found
// the leases expired; Apply skips jobs that are not active any more, leases that were renewed since, and
// leases within a new term's grace period (job.ReclaimAt). Once the entry is full, Apply leaves the other jobs
// to the next op.

// expiredError is the recorded error of a reclaimed attempt.
const expiredError = "lease expired"

// Validate refuses an op that no state could accept.
func (o *Reclaim) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply reclaims the jobs. It refuses nothing.
func (o *Reclaim) Apply(tx *state.Tx) (*ReclaimResult, error) {
	result := &ReclaimResult{}
	for _, b := range o.JobIds {
		if tx.Full() {
			break // the other jobs stay due
		}
		j, err := jobOf(tx, b)
		if err != nil {
			return nil, err
		}
		if _, leased := job.Transition(j.GetState(), job.OnReclaim); !leased || tx.ClockNs() < job.ReclaimAt(j, tx.Head().TermStartedNs) {
			continue
		}
		j.LeaseExpired = true
		j.Lease.LastRequest = nil // no request has ended this attempt
		if err := endAttempt(tx, j, reclaimed, &job.AttemptError{Error: leaseOver(j)}); err != nil {
			return nil, err
		}
		result.Reclaimed++
	}
	return result, nil
}
