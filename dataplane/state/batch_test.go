package state

import (
	"slices"
	"testing"
)

// TestBatchesInOrder checks that batches come in the order of their ids, without deleted batches.
func TestBatchesInOrder(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	id := func(n byte) [16]byte { return [16]byte{15: n} }
	update(t, s, func(tx *Tx) {
		for _, n := range []byte{3, 1, 2} {
			batch := id(n)
			must(t, tx.PutBatch(&Batch{Id: batch[:], Total: uint64(n)}, EventType_EVENT_BATCH_CHANGED))
		}
	})
	update(t, s, func(tx *Tx) { must(t, tx.DeleteBatch(id(2))) })
	snap := s.Snapshot()
	var totals []uint64
	for b, err := range snap.Batches() {
		must(t, err)
		totals = append(totals, b.Total)
	}
	must(t, snap.Close())
	if !slices.Equal(totals, []uint64{1, 3}) {
		t.Errorf("the batches are %v", totals)
	}
}
