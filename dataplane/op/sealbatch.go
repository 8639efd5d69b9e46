package op

import (
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/state"
)

// SealBatch closes an open batch, which then accepts no more members. If all its members have settled, or it
// has none, it completes. An unknown batch is refused with NOT_FOUND. For a batch that is already closed, the
// op changes nothing and answers with the batch, so a repeat does no harm.

// Validate refuses an op that no state could accept.
func (o *SealBatch) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.batchID("batch_id", o.BatchId)
	return p.err()
}

// Apply closes the batch.
func (o *SealBatch) Apply(tx *state.Tx) (*SealBatchResult, error) {
	b, err := batchOf(tx, o.BatchId)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, noBatch(o.BatchId)
	}
	if b.Open {
		b.Open = false
		if err := putBatch(tx, b); err != nil {
			return nil, err
		}
	}
	// The result is a copy, because later ops of the entry may change the record.
	return &SealBatchResult{Batch: proto.Clone(b).(*state.Batch)}, nil
}
