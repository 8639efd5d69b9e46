package state

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/engine/entry"
)

// newHead returns the head of an empty store. Job numbers and sequences start at 1, so that 0 can mean none.
func newHead() *Head {
	return &Head{NextJobNumber: 1, FeedNextSeq: 1, FeedFirstSeq: 1, UsageNextSeq: 1, UsageFirstSeq: 1}
}

// fillDefaults completes a head read from disk: a store written before usage was stored lacks the usage
// numbers, which become 1, as in an empty store.
func (h *Head) fillDefaults() {
	h.UsageNextSeq, h.UsageFirstSeq = max(h.UsageNextSeq, 1), max(h.UsageFirstSeq, 1)
}

func (h *Head) applied() entry.Applied {
	if h.Index == 0 {
		return entry.Applied{}
	}
	at := entry.Applied{Group: h.Group, Index: h.Index, Term: h.Term}
	copy(at.Incarnation[:], h.Incarnation)
	return at
}

// copy returns a copy that shares Incarnation, Settings, Audit and UsageHistories with h, so ops replace those and
// never change them in place. It copies the fields one by one, because every commit makes a copy and this is cheaper than
// reflection. A test checks that no field is missing.
func (h *Head) copy() *Head {
	return &Head{
		Group: h.Group, Incarnation: h.Incarnation, Index: h.Index, Term: h.Term,
		ClockNs: h.ClockNs, TermStartedNs: h.TermStartedNs, NextJobNumber: h.NextJobNumber,
		FeedNextSeq: h.FeedNextSeq, FeedFirstSeq: h.FeedFirstSeq,
		FeedBytes: h.FeedBytes, FeedTrimmedBytes: h.FeedTrimmedBytes,
		IdempotencyRecords: h.IdempotencyRecords, IdempotencyBytes: h.IdempotencyBytes,
		FeatureLevel: h.FeatureLevel, Secured: h.Secured,
		KeyRecords: h.KeyRecords, QueueRecords: h.QueueRecords,
		UsageNextSeq: h.UsageNextSeq, UsageFirstSeq: h.UsageFirstSeq, UsageRejected: h.UsageRejected,
		OutboxRecords: h.OutboxRecords, InboxRecords: h.InboxRecords, ForwardRecords: h.ForwardRecords,
		LockRecords: h.LockRecords, BatchRecords: h.BatchRecords, ScheduleRecords: h.ScheduleRecords,
		DependentsRecords: h.DependentsRecords, WaiterRecords: h.WaiterRecords, Settings: h.Settings,
		LaneRecords: h.LaneRecords, AccountRecords: h.AccountRecords, TrafficRecords: h.TrafficRecords,
		ScoreRecords: h.ScoreRecords, AlertRecords: h.AlertRecords, DeliveryRecords: h.DeliveryRecords,
		PriceBook: h.PriceBook, DeliveriesMade: h.DeliveriesMade, NotificationsLost: h.NotificationsLost, LaneChanges: h.LaneChanges,
		BulkRecords: h.BulkRecords, Audit: h.Audit, UsageHistories: h.UsageHistories, MeteredNs: h.MeteredNs,
	}
}

// advance moves the head to the position of the next entry. Indexes may be skipped. A position that cannot
// follow means a fault of the log or of its reader.
func (h *Head) advance(at entry.Applied) error {
	switch {
	case at.Index <= h.Index:
		return fmt.Errorf("entry %d is not after the applied entry %d", at.Index, h.Index)
	case at.Term < h.Term:
		return fmt.Errorf("entry %d has term %d, below the applied term %d", at.Index, at.Term, h.Term)
	case h.Group != "" && at.Group != h.Group:
		return fmt.Errorf("entry %d is of group %q, the store of %q", at.Index, at.Group, h.Group)
	}
	h.Group, h.Index, h.Term = at.Group, at.Index, at.Term
	return nil
}

// join checks that an entry belongs to the store's history. The first entry checked determines the history.
func (h *Head) join(index uint64, incarnation entry.Incarnation) error {
	if len(h.Incarnation) == 0 {
		h.Incarnation = incarnation[:]
		return nil
	}
	if string(h.Incarnation) != string(incarnation[:]) {
		return fmt.Errorf("entry %d is of incarnation %x, the store of %x", index, incarnation[:], h.Incarnation)
	}
	return nil
}

// configuration is the last recorded membership and the index of its entry. It is immutable once published.
type configuration struct {
	bytes []byte
	index uint64
}

// PutConfiguration stores the whole membership of the group after a change, in raft's encoding, as the entry
// at the given position. A zero incarnation is not compared. After any error the store has failed; see Err.
func (s *Store) PutConfiguration(at entry.Applied, encoded []byte) error {
	head := s.head.Load().copy()
	err := s.usable()
	if err == nil {
		err = head.advance(at)
	}
	if err == nil && at.Incarnation != (entry.Incarnation{}) {
		err = head.join(at.Index, at.Incarnation)
	}
	if err != nil {
		return s.failure.set(fmt.Errorf("record the membership: %w", err))
	}
	b := s.gen.db.NewBatch()
	defer b.Close()
	value := append(binary.BigEndian.AppendUint64(nil, at.Index), encoded...)
	if err := b.Set(configurationKey(), value, nil); err != nil {
		return s.failure.set(fmt.Errorf("record the membership: %w", err))
	}
	if err := s.write(b, head, func() {}); err != nil {
		return err
	}
	s.configuration.Store(&configuration{bytes: value[8:], index: at.Index})
	return nil
}

// Configuration returns the last recorded membership and the index of its entry, or nil and 0 if there is
// none. The caller must not change it.
func (s *Store) Configuration() (encoded []byte, index uint64) {
	return s.configuration.Load().get()
}

func (c *configuration) get() (encoded []byte, index uint64) {
	if c == nil {
		return nil, 0
	}
	return c.bytes, c.index
}

// usable returns the reason why the applying goroutine must stop, if there is one.
func (s *Store) usable() error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.open {
		return fmt.Errorf("entry %d was begun and not committed", s.tx.head.Index)
	}
	return nil
}

// write commits a batch with its head to Pebble and then publishes the head. Between the two it calls
// written, which updates the recent records and the API keys, because a reader that sees the new head must
// not find older records or keys in memory.
func (s *Store) write(b *pebble.Batch, head *Head, written func()) error {
	if err := put(b, headKey(), head); err != nil {
		return s.failure.set(fmt.Errorf("encode the head: %w", err))
	}
	size := uint64(b.Len())
	s.gen.lag.Await((memTables-1)*uint64(s.options.MemTableBytes), s.failure.closed)
	s.publish.Lock()
	defer s.publish.Unlock()
	if err := s.gen.db.Apply(b, pebble.NoSync); err != nil {
		return s.failure.set(fmt.Errorf("write entry %d: %w", head.Index, err))
	}
	s.gen.lag.Add(size)
	if err := s.Err(); err != nil {
		return err
	}
	written()
	s.head.Store(head)
	return nil
}

// message is implemented by the generated codec of every record.
type message interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// put encodes a record directly into the batch.
func put(b *pebble.Batch, key []byte, m message) error {
	_, err := encode(b, key, m)
	return err
}

// encode writes as put does and returns the written bytes. They belong to the batch and are valid until its
// Reset.
func encode(b *pebble.Batch, key []byte, m message) (value []byte, err error) {
	op := b.SetDeferred(len(key), m.SizeVT())
	copy(op.Key, key)
	if _, err := m.MarshalToSizedBufferVT(op.Value); err != nil {
		return nil, fmt.Errorf("key %x: %w", key, err)
	}
	return op.Value, op.Finish()
}

// get decodes the record at key into m. found is false if there is none, or after an error.
func get(r source, key []byte, m interface{ UnmarshalVT([]byte) error }) (found bool, err error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = errors.Join(m.UnmarshalVT(value), closer.Close())
	}
	if err != nil {
		return false, fmt.Errorf("key %x: %w", key, err)
	}
	return true, nil
}
