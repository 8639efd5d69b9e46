package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// putBatch stores a changed batch, and completes it if it takes no more members and all are counted. The
// completion of a batch may complete its parent batch, and so on, through at most job.MaxBatchDepth batches.
func putBatch(tx *state.Tx, b *state.Batch) error {
	for b != nil {
		if b.Open || b.Settled() < b.Total {
			return tx.PutBatch(b, state.EventType_EVENT_BATCH_CHANGED)
		}
		parent, err := completeBatch(tx, b)
		if err != nil {
			return err
		}
		b = parent
	}
	return nil
}

// completeBatch completes and stores a batch. If the batch is a member of another batch, completeBatch counts
// the outcome there and returns that batch, which the caller must store. It returns nil if the batch has no
// parent, or the parent is gone.
func completeBatch(tx *state.Tx, b *state.Batch) (parent *state.Batch, err error) {
	b.CompletedNs = tx.ClockNs()
	b.PurgeNs = keptUntil(tx, batchOutcome(b))
	if b.CallbackQueue != "" {
		id := tx.NewID(b.CallbackQueue)
		b.CallbackJobId = id[:]
	}
	if err := tx.PutBatch(b, state.EventType_EVENT_BATCH_COMPLETED); err != nil {
		return nil, err
	}
	if err := callBack(tx, b); err != nil {
		return nil, err
	}
	if len(b.ParentId) == 0 {
		return nil, nil
	}
	if parent, err = batchOf(tx, b.ParentId); err != nil || parent == nil {
		return nil, err
	}
	countOutcome(parent, batchOutcome(b))
	return parent, nil
}

// batchOutcome returns the settled state of a complete batch: completed if every member succeeded, else dead.
// The parent batch counts the batch by this state, and the retention of this state decides how long the batch
// is kept.
func batchOutcome(b *state.Batch) job.State {
	if b.Succeeded == b.Total {
		return job.Completed
	}
	return job.Dead
}

// callBack creates the callback job of a complete batch, if it has one, on the shard of the job's queue.
func callBack(tx *state.Tx, b *state.Batch) error {
	if b.CallbackQueue == "" {
		return nil
	}
	payload, err := tx.BatchPayload(job.ID(b.Id))
	if err != nil {
		return err
	}
	if payload == nil {
		payload = &job.Blob{Data: []byte("{}")}
	}
	return send(tx, b.CallbackShard, &CreateJobs{
		Meta: &Meta{Ids: [][]byte{b.CallbackJobId}},
		Jobs: []*NewJob{{
			Queue:    b.CallbackQueue,
			Payload:  payload,
			Priority: job.Normal,
			Retry:    job.NewRetry(),
			Origin: &job.Origin{
				Kind: job.OriginKind_ORIGIN_KIND_BATCH, BatchId: b.Id,
				Total: b.Total, Succeeded: b.Succeeded, Failed: b.Failed, Cancelled: b.Cancelled,
			},
		}},
	})
}
