package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// checkBatch checks the batch fields of an Enqueue. It returns the ids of the jobs, which are meta.ids without
// the last if the op creates a batch, because the last is the batch's id.
func (o *Enqueue) checkBatch(p *problems) (jobIDs [][]byte) {
	ids := o.GetMeta().GetIds()
	if len(o.BatchId) > 0 {
		p.batchID("batch_id", o.BatchId)
	}
	if o.Batch == nil {
		return ids
	}
	if len(o.BatchId) > 0 {
		p.add("batch", errors.New("is a new batch, and the jobs are to join another: a job has one batch"))
	}
	o.Batch.check(p)
	if len(ids) == 0 || len(o.Jobs) == 0 {
		return ids
	}
	last := len(ids) - 1
	id, err := job.IDFromBytes(ids[last])
	if err == nil && id.Slot() != job.SlotOf(o.Jobs[0].GetQueue()) {
		err = fmt.Errorf("%s was not made for queue %q", job.BatchIDText(id), o.Jobs[0].GetQueue())
	}
	if err != nil {
		p.item("meta.ids", last, "", err)
	}
	return ids[:last]
}

func (b *NewBatch) check(p *problems) {
	if b.CallbackQueue != "" {
		p.add("batch.callback_queue", job.CheckStoredQueueName(b.CallbackQueue))
	}
	p.add("batch.callback_shard", checkShard(b.CallbackShard))
	if len(b.ParentId) > 0 {
		p.batchID("batch.parent_id", b.ParentId)
	}
	payload := b.CallbackPayload
	if payload == nil {
		return
	}
	if b.CallbackQueue == "" {
		p.add("batch.callback_payload", errors.New("needs callback_queue: give it as well, or leave this out"))
	}
	if n := len(payload.Data); n > job.MaxBatchPayload {
		p.Add(api.PayloadTooLarge, "batch.callback_payload", "has %d bytes; at most %d are allowed", n, job.MaxBatchPayload)
	}
	p.add("batch.callback_payload", job.CheckSeal(payload))
}

// batchID records a batch id of the wrong length.
func (p *problems) batchID(field string, id []byte) {
	if len(id) != len(job.ID{}) {
		p.add(field, fmt.Errorf("has %d bytes; a batch id has %d", len(id), len(job.ID{})))
	}
}

// makeBatch creates a batch with the given number of members, which the caller creates afterwards, and counts
// the batch in its parent. A sealed batch without members completes at once.
func (o *Enqueue) makeBatch(tx *state.Tx, members int) (*job.Membership, error) {
	if err := o.Batch.joinParent(tx); err != nil {
		return nil, err
	}
	b := &state.Batch{
		Id:              o.batchOfJobs(),
		Queue:           o.Jobs[0].Queue,
		Total:           uint64(members),
		Open:            o.Batch.Open,
		CallbackQueue:   o.Batch.CallbackQueue,
		CallbackShard:   o.Batch.CallbackShard,
		CallbackPayload: o.Batch.CallbackPayload != nil,
		ParentId:        o.Batch.ParentId,
		CreatedNs:       tx.ClockNs(),
	}
	if b.CallbackPayload {
		if err := tx.PutBatchPayload(job.ID(b.Id), o.Batch.CallbackPayload); err != nil {
			return nil, err
		}
	}
	return &job.Membership{BatchId: b.Id, Shard: tx.Shard()}, putBatch(tx, b)
}

// joinParent counts the new batch as a member of its parent. It refuses an unknown parent with NOT_FOUND, a
// sealed one with STATE_CONFLICT, and one that is full or lies too deep with CONFLICT.
func (b *NewBatch) joinParent(tx *state.Tx) error {
	if len(b.ParentId) == 0 {
		return nil
	}
	parent, err := openBatch(tx, b.ParentId, 1)
	if err != nil {
		return err
	}
	above, err := batchDepth(tx, parent)
	if err != nil {
		return err
	}
	if above >= job.MaxBatchDepth {
		return api.Errorf(api.Conflict, "batch %s lies %d deep, and batches are members of batches at most %d deep: leave parent_id out, or name one further up", job.BatchIDText(job.ID(b.ParentId)), above, job.MaxBatchDepth)
	}
	parent.Total++
	return putBatch(tx, parent)
}

// batchDepth returns the depth of a batch, at most job.MaxBatchDepth: 1 if it has no parent. The batches above
// it exist, because they cannot complete before it does.
func batchDepth(tx *state.Tx, b *state.Batch) (int, error) {
	depth := 1
	for len(b.ParentId) > 0 && depth < job.MaxBatchDepth {
		parent, err := batchOf(tx, b.ParentId)
		if err != nil {
			return 0, err
		}
		if parent == nil {
			return 0, fmt.Errorf("batch %x is gone and a member of it, %x, is not", b.ParentId, b.Id)
		}
		b = parent
		depth++
	}
	return depth, nil
}

// earlierBatch returns the answer of an earlier application of this op if only the op's new batch proves that
// application, because the op created no jobs or its jobs are gone. It returns nil if there is no such batch.
func (o *Enqueue) earlierBatch(tx *state.Tx) (*EnqueueResult, error) {
	if o.Batch == nil {
		return nil, nil
	}
	b, err := batchOf(tx, o.batchOfJobs())
	if err != nil || b == nil {
		return nil, err
	}
	return o.recall(tx, b.CreatedNs)
}
