package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/state"
)

// PurgeIdempotency deletes idempotency records that have expired. The proposer saw them due. Apply skips a
// record that is gone, or has not expired because its key has been used again since then.

// Validate refuses an op that no state could accept.
func (o *PurgeIdempotency) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("record_ids", o.RecordIds)
	return p.err()
}

// Apply deletes the records. It refuses nothing.
func (o *PurgeIdempotency) Apply(tx *state.Tx) (*PurgeIdempotencyResult, error) {
	result := &PurgeIdempotencyResult{}
	for _, b := range o.RecordIds {
		var id [16]byte
		if len(b) != len(id) {
			return nil, fmt.Errorf("an idempotency record's id has %d bytes, not %d", len(b), len(id))
		}
		copy(id[:], b)
		record, err := tx.Idempotency(id)
		if err != nil {
			return nil, err
		}
		if record == nil || record.ExpiresNs > tx.ClockNs() {
			continue
		}
		if err := tx.DeleteIdempotency(id); err != nil {
			return nil, err
		}
		result.Purged++
	}
	return result, nil
}
