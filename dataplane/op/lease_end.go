package op

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// leaseEnd returns the end of a lease that a worker takes or renews now. The lease lasts lengthMs, but it
// ends no later than one iteration timeout of the agent after the start of the attempt.
func leaseEnd(tx *state.Tx, j *job.Job, lengthMs int64) int64 {
	end := tx.ClockNs() + lengthMs*int64(time.Millisecond)
	if most := j.IterationTimeout(); most > 0 {
		end = min(end, j.StartedNs+int64(most))
	}
	return end
}

// leaseOver returns the error text of an attempt whose lease has expired. The text names the iteration timeout if
// the lease reached it.
func leaseOver(j *job.Job) string {
	if most := j.IterationTimeout(); most > 0 && j.Lease.GetExpiresNs() >= j.StartedNs+int64(most) {
		return fmt.Sprintf("iteration timed out after %s", most)
	}
	return expiredError
}
