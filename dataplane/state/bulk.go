package state

import (
	"fmt"
	"iter"
)

var bulkWords = map[BulkAction]string{
	BulkAction_BULK_ACTION_RETRY:           "retry",
	BulkAction_BULK_ACTION_REQUEUE:         "requeue",
	BulkAction_BULK_ACTION_CANCEL:          "cancel",
	BulkAction_BULK_ACTION_MOVE:            "move",
	BulkAction_BULK_ACTION_CHANGE_PRIORITY: "change_priority",
	BulkAction_BULK_ACTION_APPROVE:         "approve",
	BulkAction_BULK_ACTION_REJECT:          "reject",
	BulkAction_BULK_ACTION_HOLD:            "hold",
	BulkAction_BULK_ACTION_DELETE:          "delete",
}

// Word returns the action as clients write it.
func (a BulkAction) Word() string { return bulkWords[a] }

// ParseBulkAction returns the action that clients write as word, or false if there is none.
func ParseBulkAction(word string) (BulkAction, bool) { return keyOf(bulkWords, word) }

var bulkKind = rowKind[*Bulk]{
	name:   "bulk",
	prefix: prefixBulk,
	count:  func(h *Head) *uint64 { return &h.BulkRecords },
	timer: func(b *Bulk) timer {
		if b.PurgeNs == 0 {
			return timer{}
		}
		return timer{TimerBulk, b.PurgeNs}
	},
}

var (
	bulkPartKind = rowKind[*BulkPart]{name: "bulk part", prefix: prefixBulkPart}
	bulkWorkKind = rowKind[*BulkWork]{name: "bulk work", prefix: prefixBulkWork}
)

// bulkRows holds the records of bulk operations that the running entry reads and changes.
type bulkRows struct {
	bulks rows[Bulk, *Bulk]
	parts rows[BulkPart, *BulkPart]
	works rows[BulkWork, *BulkWork]
}

func (r *bulkRows) reset() {
	r.bulks.reset()
	r.parts.reset()
	r.works.reset()
}

// touched reports whether the entry has read or changed the record of a bulk operation or of a part.
func (r *bulkRows) touched() bool { return len(r.bulks.order) > 0 || len(r.parts.order) > 0 }

func (tx *Tx) encodeBulks() error {
	if err := tx.bulk.bulks.encode(tx, &bulkKind); err != nil {
		return err
	}
	if err := tx.bulk.parts.encode(tx, &bulkPartKind); err != nil {
		return err
	}
	return tx.bulk.works.encode(tx, &bulkWorkKind)
}

// Bulk returns a bulk operation, or nil if there is none. The record lies on the home shard of the operation.
// The op may change it in place and must then call PutBulk.
func (tx *Tx) Bulk(id [16]byte) (*Bulk, error) { return tx.bulk.bulks.get(tx, &bulkKind, id) }

// Bulks returns the number of stored bulk operations.
func (tx *Tx) Bulks() uint64 { return tx.head.BulkRecords }

// PutBulk stores a bulk operation under its id; nil removes it.
func (tx *Tx) PutBulk(id [16]byte, b *Bulk) error {
	if b != nil && string(b.Id) != string(id[:]) {
		return tx.fail(fmt.Errorf("put bulk %x under %x", b.Id, id))
	}
	return tx.bulk.bulks.put(tx, &bulkKind, id, b)
}

// BulkPart returns the unfinished part of a bulk operation on this shard, or nil if there is none. The op may
// change it in place and must then call PutBulkPart.
func (tx *Tx) BulkPart(id [16]byte) (*BulkPart, error) {
	return tx.bulk.parts.get(tx, &bulkPartKind, id)
}

// OpenBulkPart stores a new part and the selection of its jobs.
func (tx *Tx) OpenBulkPart(id [16]byte, p *BulkPart, w *BulkWork) error {
	if err := tx.PutBulkPart(id, p); err != nil {
		return err
	}
	return tx.bulk.works.put(tx, &bulkWorkKind, id, w)
}

// PutBulkPart stores the progress of a part.
func (tx *Tx) PutBulkPart(id [16]byte, p *BulkPart) error {
	if string(p.GetId()) != string(id[:]) {
		return tx.fail(fmt.Errorf("put the part of bulk %x under %x", p.GetId(), id))
	}
	return tx.bulk.parts.put(tx, &bulkPartKind, id, p)
}

// CloseBulkPart removes a part and the selection of its jobs.
func (tx *Tx) CloseBulkPart(id [16]byte) error {
	if err := tx.bulk.parts.put(tx, &bulkPartKind, id, nil); err != nil {
		return err
	}
	return tx.bulk.works.put(tx, &bulkWorkKind, id, nil)
}

// Bulk returns a bulk operation as of the last commit, or nil if there is none.
func (s *Store) Bulk(id [16]byte) (*Bulk, error) {
	return committed(s, func(r source) (*Bulk, error) { return readRow[Bulk](r, &bulkKind, id) })
}

// BulkParts returns the unfinished parts of this shard in order of their ids, so the oldest comes first.
func (s *Store) BulkParts() ([]*BulkPart, error) {
	return committed(s, func(r source) (all []*BulkPart, err error) {
		for p, err := range scanRows[BulkPart](r, &bulkPartKind, [16]byte{}) {
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
		return all, nil
	})
}

// BulkWork returns the selection of a part's jobs, or nil if there is no unfinished part of the operation.
func (s *Store) BulkWork(id [16]byte) (*BulkWork, error) {
	return committed(s, func(r source) (*BulkWork, error) { return readRow[BulkWork](r, &bulkWorkKind, id) })
}

// Bulks yields all bulk operations in order of their ids.
func (v *Snapshot) Bulks() iter.Seq2[*Bulk, error] {
	return scanRows[Bulk](v.snap, &bulkKind, [16]byte{})
}

// BulkParts yields the unfinished parts of this shard in order of their ids.
func (v *Snapshot) BulkParts() iter.Seq2[*BulkPart, error] {
	return scanRows[BulkPart](v.snap, &bulkPartKind, [16]byte{})
}

// BulkChanged returns a channel that is closed by the next commit that reads or changes any bulk operation or
// part of one, and by a restore. A reader must take the channel before it reads the operation, so that it
// misses no change.
func (s *Store) BulkChanged() <-chan struct{} { return s.bulkChanges.changed() }

// notifyBulk notifies the readers of bulk operations and the duty that runs their parts.
func (s *Store) notifyBulk() {
	s.bulkChanges.notify()
	if s.hooks.OnBulk != nil {
		s.hooks.OnBulk()
	}
}

// Processed returns the number of jobs that the operation has tried.
func (c *BulkCounts) Processed() uint64 { return c.GetAffected() + c.GetErrors() }

// Counts sums the counts that the shards have reported so far.
func (b *Bulk) Counts() *BulkCounts {
	sum := &BulkCounts{}
	for _, s := range b.GetShares() {
		sum.Affected += s.GetCounts().GetAffected()
		sum.Errors += s.GetCounts().GetErrors()
	}
	return sum
}

// Begun reports whether any shard has reported its progress.
func (b *Bulk) Begun() bool {
	for _, s := range b.GetShares() {
		if s.Reported {
			return true
		}
	}
	return false
}

func (c *checker) bulks() error {
	if err := checkRows[Bulk](c, &bulkKind, func(id [16]byte, b *Bulk) error {
		if (b.FinishedNs == 0) != (b.PurgeNs == 0) {
			c.report("bulk %x finished at %d and is to be forgotten at %d", id, b.FinishedNs, b.PurgeNs)
		}
		return nil
	}); err != nil {
		return err
	}
	open := map[[16]byte]bool{}
	if err := checkRows[BulkPart](c, &bulkPartKind, func(id [16]byte, p *BulkPart) error {
		open[id] = true
		if p.Next >= p.End {
			c.report("the part of bulk %x is at %d of %d and has not ended", id, p.Next, p.End)
		}
		return nil
	}); err != nil {
		return err
	}
	return checkRows[BulkWork](c, &bulkWorkKind, func(id [16]byte, _ *BulkWork) error {
		if !open[id] {
			c.report("there is work for bulk %x and no part of it", id)
		}
		return nil
	})
}
