package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// PurgeBatches removes completed batches whose retention is over. Their jobs keep the batch id. The proposer
// found them due; Apply skips batches that are gone or not due at the entry's clock.

// Validate refuses an op that no state could accept.
func (o *PurgeBatches) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("batch_ids", o.BatchIds)
	return p.err()
}

// Apply removes the batches. It refuses nothing.
func (o *PurgeBatches) Apply(tx *state.Tx) (*PurgeBatchesResult, error) {
	result := &PurgeBatchesResult{}
	for _, id := range o.BatchIds {
		b, err := batchOf(tx, id)
		if err != nil {
			return nil, err
		}
		if b.GetPurgeNs() == 0 || b.PurgeNs > tx.ClockNs() {
			continue
		}
		if err := tx.DeleteBatch(job.ID(id)); err != nil {
			return nil, fmt.Errorf("batch %x: %w", id, err)
		}
		result.Purged++
	}
	return result, nil
}
