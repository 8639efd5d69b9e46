package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Expire deletes idempotency records that have expired. The proposer saw them due. A record whose key has
// been used again since then is skipped.

// Number is Expire's number in the log.
func (*Expire) Number() entry.Number { return numExpire }

// Class is Expire's place among waiting proposals.
func (*Expire) Class() pipeline.Class { return table[numExpire].Class }

// Validate refuses an op that no state could accept.
func (o *Expire) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("record_ids", o.RecordIds)
	return p.err()
}

// Apply deletes the records. It refuses nothing.
func (o *Expire) Apply(tx *state.Tx) (*ExpireResult, error) {
	result := &ExpireResult{}
	for _, b := range o.RecordIds {
		var id [16]byte
		if len(b) != len(id) {
			return nil, fmt.Errorf("an idempotency record's id has %d bytes, not %d", len(id), len(b))
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
		result.Expired++
	}
	return result, nil
}
