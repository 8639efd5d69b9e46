package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// A batch counts each member once, when the member first settles. A later retry of a member changes no count.
// When the batch takes no more members and all are counted, it is complete and its callback job, if it has
// one, is created (batch_complete.go). The batch lies on the shard that its jobs were enqueued on. If a
// member was moved away, its new shard sends a CountMember when the member settles.
//
// Each member records whether it was counted (job.Membership), and the batch has the sums. A list of members in
// the batch was rejected because it would grow without bound.

// joinBatch returns the membership for the jobs of an enqueue, nil if they belong to no batch. It counts the
// `made` jobs that the enqueue creates. A job that the enqueue only found through its key keeps the batch of
// the enqueue that created it. If joinBatch refuses, nothing was written.
func (o *Enqueue) joinBatch(tx *state.Tx, made int) (*job.Membership, error) {
	switch {
	case o.Batch != nil:
		return o.makeBatch(tx, made)
	case len(o.BatchId) > 0:
		return o.addToBatch(tx, made)
	}
	return nil, nil
}

// addToBatch counts new members in an open batch.
func (o *Enqueue) addToBatch(tx *state.Tx, made int) (*job.Membership, error) {
	b, err := openBatch(tx, o.BatchId, made)
	if err != nil {
		return nil, err
	}
	if made > 0 {
		b.Total += uint64(made)
		if err := putBatch(tx, b); err != nil {
			return nil, err
		}
	}
	return &job.Membership{BatchId: b.Id, Shard: tx.Shard()}, nil
}

// openBatch returns a batch that takes n more members. It refuses an unknown batch with NOT_FOUND, a sealed
// one with STATE_CONFLICT, and one without room for n more with CONFLICT.
func openBatch(tx *state.Tx, id []byte, n int) (*state.Batch, error) {
	b, err := batchOf(tx, id)
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return nil, noBatch(id)
	case !b.Open:
		return nil, api.Errorf(api.StateConflict, "batch %s is sealed and takes no more jobs: create another batch", job.BatchIDText(job.ID(id)))
	case b.Total+uint64(n) > job.MaxBatchMembers:
		return nil, api.Errorf(api.Conflict, "batch %s has %d jobs, and the request adds %d; at most %d are allowed: seal it and create another", job.BatchIDText(job.ID(id)), b.Total, n, job.MaxBatchMembers)
	}
	return b, nil
}

// batchOf returns the batch with the id in an op, nil if it does not exist. As with a job, an invalid id
// stops the replica.
func batchOf(tx *state.Tx, id []byte) (*state.Batch, error) {
	parsed, err := job.IDFromBytes(id)
	if err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	return tx.Batch(parsed)
}

func noBatch(id []byte) *api.Error {
	return api.Errorf(api.NotFound, "there is no batch %s", job.BatchIDText(job.ID(id)))
}

// batchOfJobs returns the id of the batch that the jobs join, nil for none.
func (o *Enqueue) batchOfJobs() []byte {
	if o.Batch == nil {
		return o.BatchId
	}
	ids := o.Meta.Ids
	return ids[len(ids)-1]
}

// memberOf copies the membership for one job, because the jobs of an enqueue share the original. It returns
// nil for nil.
func memberOf(m *job.Membership) *job.Membership {
	if m == nil {
		return nil
	}
	return &job.Membership{BatchId: m.BatchId, Shard: m.Shard}
}

// countInBatch reports to a job's batch that the job settles, but only the first time it does.
func countInBatch(tx *state.Tx, j *job.Job) error {
	if j.Batch == nil || j.Batch.Counted {
		return nil
	}
	j.Batch.Counted = true
	return send(tx, j.Batch.Shard, &CountMember{BatchId: j.Batch.BatchId, Outcome: j.State})
}
