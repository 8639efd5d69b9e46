package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// WatchJob registers a waiter for the outcome of a job. It goes first to the shard where the job was created.
// Apply stores the waiter and marks a job that has not settled as one with dependents. If the job has settled
// already, has gone to another shard or does not exist, ResolveDependents answers a moment later. So WatchJob
// needs no room in any outbox and refuses nothing. A second WatchJob of the same waiter for the same job
// changes nothing while the first is stored.
//
// A shard that a job has left forwards the request after the job, so the request cannot overtake the job.
// Sending the request straight to the job's present shard was rejected, because it could arrive there before
// the job.

// Validate refuses an op that no shard can have sent.
func (o *WatchJob) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("job_id", checkID(o.JobId))
	p.add("waiter_id", checkID(o.WaiterId))
	p.add("waiter_shard", checkShard(o.WaiterShard))
	return p.err()
}

// Apply stores the waiter. It refuses nothing.
func (o *WatchJob) Apply(tx *state.Tx) (*WatchJobResult, error) {
	id, err := job.IDFromBytes(o.JobId)
	if err != nil {
		return nil, err
	}
	waiter, err := job.IDFromBytes(o.WaiterId)
	if err != nil {
		return nil, err
	}
	if err := tx.AddWaiter(id, waiter, o.WaiterShard); err != nil {
		return nil, err
	}
	_, err = observe(tx, id)
	return &WatchJobResult{}, err
}

// checkID checks the length of a job id.
func checkID(b []byte) error {
	if len(b) != len(job.ID{}) {
		return fmt.Errorf("has %d bytes; a job id has %d", len(b), len(job.ID{}))
	}
	return nil
}
