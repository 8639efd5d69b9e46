package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Watch asks to be told how a job settles. It begins at the shard the job was born
// on and only notes who asks: where the job has settled already, has gone to another
// shard or never was, ResolveDependents says so a moment later. So it needs no room
// on the way to any shard and can refuse nothing. A second Watch of the same waiter
// changes nothing while the first is noted.
//
// A shard that a job has left sends the question after it, behind the job itself, so
// it cannot arrive first. To begin where the proposer believes the job to be was
// rejected, because there it could.

// Number is Watch's number in the log.
func (*Watch) Number() entry.Number { return numWatch }

// Class is Watch's place among waiting proposals.
func (*Watch) Class() pipeline.Class { return table[numWatch].Class }

// Validate refuses what no shard can have sent.
func (o *Watch) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("job_id", checkID(o.JobId))
	p.add("waiter_id", checkID(o.WaiterId))
	p.add("waiter_shard", checkShard(o.WaiterShard))
	return p.err()
}

// Apply notes the waiter.
func (o *Watch) Apply(tx *state.Tx) (*WatchResult, error) {
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
	return &WatchResult{}, err
}

// checkID looks at a field that holds a job's id.
func checkID(b []byte) error {
	if len(b) != len(job.ID{}) {
		return fmt.Errorf("has %d bytes; a job id has %d", len(b), len(job.ID{}))
	}
	return nil
}
