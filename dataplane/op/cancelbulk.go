package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// CancelBulk ends a bulk operation before all its jobs are done. Jobs that are done stay as they are. The home
// shard records the cancellation and sends it to the shards whose parts have not ended.
//
// Cancelling a cancelled operation again succeeds. An unknown operation is refused with NOT_FOUND, and one that
// has ended without a cancellation with STATE_CONFLICT. A CancelBulk for a shard's part refuses nothing.

// Validate refuses an op that no state could accept.
func (o *CancelBulk) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.bulkID("bulk_id", o.BulkId)
	return p.err()
}

func (o *CancelBulk) Apply(tx *state.Tx) (*CancelBulkResult, error) {
	id := [16]byte(o.BulkId)
	if o.Part {
		return &CancelBulkResult{}, cancelPart(tx, id)
	}
	b, err := tx.Bulk(id)
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return nil, api.Errorf(api.NotFound, "there is no bulk operation %s", job.BulkIDText(id))
	case b.Cancelled:
		return &CancelBulkResult{Ended: b.FinishedNs > 0}, nil
	case b.FinishedNs > 0:
		return nil, api.Errorf(api.StateConflict, "bulk operation %s has ended: it cannot be cancelled", job.BulkIDText(id))
	}
	b.Cancelled, b.UpdatedNs = true, tx.ClockNs()
	if err := tx.PutBulk(id, b); err != nil {
		return nil, err
	}
	for _, s := range b.Shares {
		if s.Ended {
			continue
		}
		if err := send(tx, s.Shard, &CancelBulk{Meta: &Meta{Principal: o.Meta.GetPrincipal()}, BulkId: id[:], Part: true}); err != nil {
			return nil, err
		}
	}
	return &CancelBulkResult{Ended: b.FinishedNs > 0}, nil
}

// cancelPart ends this shard's part of the operation, if there is one, and reports the end to the home shard.
func cancelPart(tx *state.Tx, id [16]byte) error {
	p, err := tx.BulkPart(id)
	if err != nil || p == nil {
		return err
	}
	if err := tx.CloseBulkPart(id); err != nil {
		return err
	}
	return notifyHomeShard(tx, p, nil, true, "")
}
