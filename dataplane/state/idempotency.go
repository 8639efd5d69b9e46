package state

import "fmt"

// Idempotency returns the record of a request as of the last commit, or nil if there is none.
func (s *Store) Idempotency(id [16]byte) (*Idempotency, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed
	}
	rec := &Idempotency{}
	if found, err := get(s.gen.db, appendIdempotencyKey(nil, id), rec); !found {
		return nil, err
	}
	return rec, nil
}

// Idempotency returns the record of a request as the entry's earlier ops left it, or nil if there is none.
// The caller must not change it.
func (tx *Tx) Idempotency(id [16]byte) (*Idempotency, error) {
	if rec, ok := tx.idempotency[id]; ok {
		return rec, nil
	}
	rec := &Idempotency{}
	tx.key = appendIdempotencyKey(tx.key[:0], id)
	found, err := get(tx.s.gen.db, tx.key, rec)
	if err != nil {
		return nil, tx.fail(err)
	}
	if !found {
		rec = nil
	}
	tx.idempotency[id] = rec
	return rec, nil
}

// PutIdempotency stores the record of a request and replaces an earlier one with the id. The Tx owns the
// record from then on.
func (tx *Tx) PutIdempotency(id [16]byte, rec *Idempotency) error {
	if err := tx.setIdempotency(id, rec); err != nil {
		return tx.fail(fmt.Errorf("put idempotency record %x: %w", id, err))
	}
	return nil
}

// DeleteIdempotency removes the record of a request. It does nothing if there is none.
func (tx *Tx) DeleteIdempotency(id [16]byte) error {
	if err := tx.setIdempotency(id, nil); err != nil {
		return tx.fail(fmt.Errorf("delete idempotency record %x: %w", id, err))
	}
	return nil
}

// setIdempotency replaces a record, its timer and its share of the counters; nil removes them.
func (tx *Tx) setIdempotency(id [16]byte, rec *Idempotency) error {
	old, err := tx.Idempotency(id)
	if err != nil {
		return err
	}
	if err := tx.moveTimer(old.timer(), rec.timer(), id); err != nil {
		return err
	}
	tx.idempotency[id] = rec
	if old != nil {
		tx.head.IdempotencyRecords--
		tx.head.IdempotencyBytes -= uint64(len(old.Result))
	}
	tx.key = appendIdempotencyKey(tx.key[:0], id)
	if rec != nil {
		tx.head.IdempotencyRecords++
		tx.head.IdempotencyBytes += uint64(len(rec.Result))
		return put(tx.batch, tx.key, rec)
	}
	if old != nil {
		return tx.batch.Delete(tx.key, nil)
	}
	return nil
}

// timer returns the timer of the record's expiry.
func (rec *Idempotency) timer() timer {
	if rec == nil {
		return timer{}
	}
	return timer{TimerIdempotency, rec.ExpiresNs}
}
