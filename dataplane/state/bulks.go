package state

import (
	"fmt"
	"iter"
	"sync"
)

// bulkWords are the actions as clients write them.
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

// Word is what clients call it.
func (a BulkAction) Word() string { return bulkWords[a] }

// ParseBulkAction reads what Word wrote.
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

// bulkRows are the records of bulk operations in the running entry.
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

// touched says whether the entry has read or changed any.
func (r *bulkRows) touched() bool { return len(r.bulks.order) > 0 || len(r.parts.order) > 0 }

// encodeBulks writes the records of bulk operations.
func (tx *Tx) encodeBulks() error {
	if err := tx.bulk.bulks.encode(tx, &bulkKind); err != nil {
		return err
	}
	if err := tx.bulk.parts.encode(tx, &bulkPartKind); err != nil {
		return err
	}
	return tx.bulk.works.encode(tx, &bulkWorkKind)
}

// Bulk is a bulk operation, on the home shard; nil when there is none. The op may
// change it in place and must then call PutBulk.
func (tx *Tx) Bulk(id [16]byte) (*Bulk, error) { return tx.bulk.bulks.get(tx, &bulkKind, id) }

// Bulks is how many bulk operations are kept.
func (tx *Tx) Bulks() uint64 { return tx.head.BulkRecords }

// PutBulk stores a bulk operation under its id; nil removes it.
func (tx *Tx) PutBulk(id [16]byte, b *Bulk) error {
	if b != nil && string(b.Id) != string(id[:]) {
		return tx.fail(fmt.Errorf("put bulk %x under %x", b.Id, id))
	}
	return tx.bulk.bulks.put(tx, &bulkKind, id, b)
}

// BulkPart is the part of a bulk operation that this shard has yet to do; nil when
// there is none. The op may change it in place and must then call PutBulkPart.
func (tx *Tx) BulkPart(id [16]byte) (*BulkPart, error) {
	return tx.bulk.parts.get(tx, &bulkPartKind, id)
}

// OpenBulkPart stores a part that begins, and what its jobs are found by.
func (tx *Tx) OpenBulkPart(id [16]byte, p *BulkPart, w *BulkWork) error {
	if err := tx.PutBulkPart(id, p); err != nil {
		return err
	}
	return tx.bulk.works.put(tx, &bulkWorkKind, id, w)
}

// PutBulkPart stores how far a part has come.
func (tx *Tx) PutBulkPart(id [16]byte, p *BulkPart) error {
	if string(p.GetId()) != string(id[:]) {
		return tx.fail(fmt.Errorf("put the part of bulk %x under %x", p.GetId(), id))
	}
	return tx.bulk.parts.put(tx, &bulkPartKind, id, p)
}

// CloseBulkPart removes a part and what its jobs were found by.
func (tx *Tx) CloseBulkPart(id [16]byte) error {
	if err := tx.bulk.parts.put(tx, &bulkPartKind, id, nil); err != nil {
		return err
	}
	return tx.bulk.works.put(tx, &bulkWorkKind, id, nil)
}

// Bulk is a bulk operation as of the last commit; nil when there is none.
func (s *Store) Bulk(id [16]byte) (*Bulk, error) {
	return committed(s, func(r source) (*Bulk, error) { return readRow[Bulk](r, &bulkKind, id) })
}

// BulkParts are the parts that this shard has yet to do, in order of their ids: those
// that began first come first.
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

// BulkWork is what the jobs of a part are found by; nil where it has ended.
func (s *Store) BulkWork(id [16]byte) (*BulkWork, error) {
	return committed(s, func(r source) (*BulkWork, error) { return readRow[BulkWork](r, &bulkWorkKind, id) })
}

// Bulks are all bulk operations in order of their ids.
func (v *Snapshot) Bulks() iter.Seq2[*Bulk, error] {
	return scanRows[Bulk](v.snap, &bulkKind, [16]byte{})
}

// BulkParts are the parts that this shard has yet to do, in order of their ids.
func (v *Snapshot) BulkParts() iter.Seq2[*BulkPart, error] {
	return scanRows[BulkPart](v.snap, &bulkPartKind, [16]byte{})
}

// bulkNews wakes those who follow bulk operations.
type bulkNews struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next commit that changes one; nil: nobody waits
}

// BulkNews is closed when a commit has changed a bulk operation, whichever, or the
// store was restored. Who follows one asks for it before reading.
func (s *Store) BulkNews() <-chan struct{} {
	s.bulkNews.mu.Lock()
	defer s.bulkNews.mu.Unlock()
	if s.bulkNews.next == nil {
		s.bulkNews.next = make(chan struct{})
	}
	return s.bulkNews.next
}

func (n *bulkNews) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

// tellBulk wakes who follows bulk operations and who does their parts.
func (s *Store) tellBulk() {
	s.bulkNews.tell()
	if s.hooks.OnBulk != nil {
		s.hooks.OnBulk()
	}
}

// Processed is how many jobs were looked at.
func (c *BulkCounts) Processed() uint64 { return c.GetAffected() + c.GetErrors() }

// Counts is what has come of all jobs so far, as far as the shards have told.
func (b *Bulk) Counts() *BulkCounts {
	sum := &BulkCounts{}
	for _, s := range b.GetShares() {
		sum.Affected += s.GetCounts().GetAffected()
		sum.Errors += s.GetCounts().GetErrors()
	}
	return sum
}

// Begun says whether any shard has told how far it is.
func (b *Bulk) Begun() bool {
	for _, s := range b.GetShares() {
		if s.Told {
			return true
		}
	}
	return false
}

// bulks checks the records of bulk operations.
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
