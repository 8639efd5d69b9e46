package state

import (
	"cmp"
	"fmt"
	"iter"

	"github.com/corvo/corvo/dataplane/job"
)

var batchKind = rowKind[*Batch]{
	name:   "batch",
	prefix: prefixBatch,
	count:  func(h *Head) *uint64 { return &h.BatchRecords },
	timer: func(b *Batch) timer {
		if b.PurgeNs == 0 {
			return timer{}
		}
		return timer{TimerBatch, b.PurgeNs}
	},
}

var payloadKind = rowKind[*job.Blob]{name: "batch payload", prefix: prefixBatchPayload}

// Settled returns the number of members that have settled.
func (b *Batch) Settled() uint64 { return b.GetSucceeded() + b.GetFailed() + b.GetCancelled() }

// HomeQueue returns the queue of a batch: its callback's queue or, without a callback, the queue of the first
// job of the request that created it. API keys whose scope covers this queue may read the batch and receive
// its events. For a batch with a callback the queue of the first job was rejected, because a batch names its
// callback's queue, and the batch's readers must not learn of queues beyond their scope.
func (b *Batch) HomeQueue() string { return cmp.Or(b.GetCallbackQueue(), b.GetQueue()) }

// Batch returns a batch by id, or nil if there is none. The op may change it in place and must then call
// PutBatch.
func (tx *Tx) Batch(id [16]byte) (*Batch, error) { return tx.batches.get(tx, &batchKind, id) }

// PutBatch stores a batch under its id and adds the events to the feed. At least one event is required.
func (tx *Tx) PutBatch(b *Batch, events ...EventType) error {
	if len(b.Id) != len(job.ID{}) || len(events) == 0 {
		return tx.fail(fmt.Errorf("put batch %x: it has no id, or no event", b.Id))
	}
	id := [16]byte(b.Id)
	for _, event := range events {
		tx.recordEvent(event, b.HomeQueue(), id)
	}
	return tx.batches.put(tx, &batchKind, id, b)
}

// DeleteBatch removes a batch and the payload of its callback. It does nothing if there is no such batch. The
// members keep their reference to the batch.
func (tx *Tx) DeleteBatch(id [16]byte) error {
	b, err := tx.Batch(id)
	if err != nil || b == nil {
		return err
	}
	tx.recordEvent(EventType_EVENT_BATCH_DELETED, b.HomeQueue(), id)
	if err := tx.batches.put(tx, &batchKind, id, nil); err != nil {
		return err
	}
	return tx.payloads.put(tx, &payloadKind, id, nil)
}

// BatchPayload returns the payload of a batch's callback, or nil if there is none.
func (tx *Tx) BatchPayload(id [16]byte) (*job.Blob, error) {
	return tx.payloads.get(tx, &payloadKind, id)
}

// PutBatchPayload stores the payload of a batch's callback; nil removes it.
func (tx *Tx) PutBatchPayload(id [16]byte, b *job.Blob) error {
	return tx.payloads.put(tx, &payloadKind, id, b)
}

// Batch returns a batch as of the last commit, or nil if there is none.
func (s *Store) Batch(id [16]byte) (*Batch, error) {
	return committed(s, func(r source) (*Batch, error) { return readRow[Batch](r, &batchKind, id) })
}

// Batch returns a batch, or nil if there is none.
func (v *Snapshot) Batch(id [16]byte) (*Batch, error) { return readRow[Batch](v.snap, &batchKind, id) }

// BatchPayload returns the payload of a batch's callback, or nil if there is none.
func (v *Snapshot) BatchPayload(id [16]byte) (*job.Blob, error) {
	return readRow[job.Blob](v.snap, &payloadKind, id)
}

// Batches yields all batches in order of their ids.
func (v *Snapshot) Batches() iter.Seq2[*Batch, error] {
	return scanRows[Batch](v.snap, &batchKind, [16]byte{})
}
