package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// A batch counts jobs, its members, to their end: each once, at its first settling,
// whatever becomes of it after. When it takes no more members and all are counted
// it is complete, and its callback is made (endbatch.go). It lies on the shard its
// jobs were enqueued on; those that are moved away are counted by a CountMember
// that is sent back.
//
// Who is counted is written on the member (job.Membership), and the batch has the
// sums: a list of members in the batch would grow without bound.

// joinBatch is the membership that the jobs of an enqueue get: nil where they are
// of no batch. It counts `made` members, those the enqueue makes; what it only found
// belongs to whoever made it. Where it refuses nothing was written.
func (o *Enqueue) joinBatch(tx *state.Tx, made int) (*job.Membership, error) {
	switch {
	case o.Batch != nil:
		return o.makeBatch(tx, made)
	case len(o.BatchId) > 0:
		return o.addToBatch(tx, made)
	}
	return nil, nil
}

// addToBatch counts new members of an open batch.
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

// openBatch is a batch that takes n more members; refused where it does not.
func openBatch(tx *state.Tx, id []byte, n int) (*state.Batch, error) {
	b, err := batchOf(tx, id)
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return nil, noBatch(id)
	case !b.Open:
		return nil, api.Errorf(api.StateConflict, "batch %s is sealed: it takes no more members; make another batch", job.BatchIDText(job.ID(id)))
	case b.Total+uint64(n) > job.MaxBatchMembers:
		return nil, api.Errorf(api.Conflict, "batch %s has %d members and would have %d more; at most %d are allowed: seal it and make another", job.BatchIDText(job.ID(id)), b.Total, n, job.MaxBatchMembers)
	}
	return b, nil
}

// batchOf is the batch whose id an op carries; nil when there is none. As with a
// job's, an id that is none stops the replica.
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

// batchOfJobs is the id of the batch that the jobs are members of; nil for none.
func (o *Enqueue) batchOfJobs() []byte {
	if o.Batch == nil {
		return o.BatchId
	}
	ids := o.Meta.Ids
	return ids[len(ids)-1]
}

// memberOf is a job's own copy of the membership it shares with others; nil for
// none.
func memberOf(m *job.Membership) *job.Membership {
	if m == nil {
		return nil
	}
	return &job.Membership{BatchId: m.BatchId, Shard: m.Shard}
}

// countInBatch tells a job's batch that it settles, once.
func countInBatch(tx *state.Tx, j *job.Job) error {
	if j.Batch == nil || j.Batch.Counted {
		return nil
	}
	j.Batch.Counted = true
	return send(tx, j.Batch.Shard, &CountMember{BatchId: j.Batch.BatchId, Outcome: j.State})
}
