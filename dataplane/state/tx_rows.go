package state

import (
	"fmt"
	"iter"
)

// rows holds the records of one kind, by their ids of 16 bytes, that the running entry has read or changed.
// Commit writes the changed ones. Memory does not keep them for the next entry. The zero value is ready for
// use.
type rows[T any, R interface {
	*T
	record
	message
}] struct {
	byID  map[[16]byte]*row[R]
	order []*row[R]
}

type row[R any] struct {
	id     [16]byte
	rec    R // nil for none
	exists bool
	stored bool
	timer  timer // of the stored record
	dirty  bool
}

// rowKind describes how the records of a kind are stored.
type rowKind[R any] struct {
	name   string
	prefix byte
	timer  func(R) timer       // nil if they have none
	count  func(*Head) *uint64 // nil if they are not counted
}

func (x *rows[T, R]) reset() {
	clear(x.byID)
	clear(x.order)
	x.order = x.order[:0]
}

// get returns the record of an id as the entry's earlier ops left it, or nil if there is none.
func (x *rows[T, R]) get(tx *Tx, k *rowKind[R], id [16]byte) (R, error) {
	r, err := x.row(tx, k, id)
	if err != nil {
		return nil, tx.fail(fmt.Errorf("%s %x: %w", k.name, id, err))
	}
	return r.rec, nil
}

func (x *rows[T, R]) row(tx *Tx, k *rowKind[R], id [16]byte) (*row[R], error) {
	if r := x.byID[id]; r != nil {
		return r, nil
	}
	r := &row[R]{id: id}
	if k.count == nil || *k.count(tx.head) > 0 {
		rec := R(new(T))
		tx.key = appendIDKey(tx.key[:0], k.prefix, id)
		found, err := get(tx.s.gen.db, tx.key, rec)
		if err != nil {
			return nil, err
		}
		if found {
			r.rec, r.exists, r.stored = rec, true, true
			if k.timer != nil {
				r.timer = k.timer(rec)
			}
		}
	}
	if x.byID == nil {
		x.byID = map[[16]byte]*row[R]{}
	}
	x.byID[id] = r
	x.order = append(x.order, r)
	return r, nil
}

// put stores a record under an id and replaces an earlier one; nil removes it. The Tx keeps rec, and Commit
// encodes it as it is then.
func (x *rows[T, R]) put(tx *Tx, k *rowKind[R], id [16]byte, rec R) error {
	r, err := x.row(tx, k, id)
	if err != nil {
		return tx.fail(fmt.Errorf("%s %x: %w", k.name, id, err))
	}
	exists := rec != nil
	if k.count != nil && exists != r.exists {
		if exists {
			*k.count(tx.head)++
		} else {
			*k.count(tx.head)--
		}
	}
	r.rec, r.exists, r.dirty = rec, exists, true
	return nil
}

// encode writes the changed records and moves their timers.
func (x *rows[T, R]) encode(tx *Tx, k *rowKind[R]) error {
	for _, r := range x.order {
		if !r.dirty {
			continue
		}
		if k.timer != nil {
			now := timer{}
			if r.exists {
				now = k.timer(r.rec)
			}
			if err := tx.moveTimer(r.timer, now, r.id); err != nil {
				return err
			}
		}
		tx.key = appendIDKey(tx.key[:0], k.prefix, r.id)
		var err error
		switch {
		case r.exists:
			err = put(tx.batch, tx.key, r.rec)
		case r.stored:
			err = tx.batch.Delete(tx.key, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encodeRecords writes the changed batches, payloads, schedules and dependents.
func (tx *Tx) encodeRecords() error {
	if err := tx.batches.encode(tx, &batchKind); err != nil {
		return err
	}
	if err := tx.payloads.encode(tx, &payloadKind); err != nil {
		return err
	}
	if err := tx.schedules.encode(tx, &scheduleKind); err != nil {
		return err
	}
	return tx.dependents.encode(tx, &dependentsKind)
}

// readRow returns the record of an id, or nil if there is none.
func readRow[T any, R interface {
	*T
	record
	message
}](r source, k *rowKind[R], id [16]byte) (R, error) {
	rec := R(new(T))
	if found, err := get(r, appendIDKey(nil, k.prefix, id), rec); !found {
		return nil, err
	}
	return rec, nil
}

// scanRows yields the records of a kind from an id on, in order.
func scanRows[T any, R interface {
	*T
	record
	message
}](r source, k *rowKind[R], from [16]byte) iter.Seq2[R, error] {
	return scanRange(r, appendIDKey(nil, k.prefix, from), afterPrefix(k.prefix), func() R { return R(new(T)) })
}

// committed reads from the store as of the last commit. It returns errClosed for a closed store.
func committed[R any](s *Store, read func(source) (R, error)) (none R, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return none, errClosed
	}
	return read(s.gen.db)
}

// checkRows compares the number of records of a kind and their timers with the head and the timer index. It
// also calls each(id, rec) for every record, unless each is nil.
func checkRows[T any, R interface {
	*T
	record
	message
}](c *checker, k *rowKind[R], each func(id [16]byte, rec R) error) error {
	n := uint64(0)
	for kv, err := range scanPairs(c.v.snap, []byte{k.prefix}, afterPrefix(k.prefix)) {
		if err != nil {
			return err
		}
		id, err := decodeIDKey(kv.Key, k.prefix)
		if err != nil {
			return err
		}
		rec := R(new(T))
		if err := decode(kv, rec); err != nil {
			return err
		}
		n++
		if k.timer != nil {
			if t := k.timer(rec); t.class != 0 {
				c.timers++
				if err := c.expect(appendTimerKey(nil, t, id), nil); err != nil {
					return err
				}
			}
		}
		if each != nil {
			if err := each(id, rec); err != nil {
				return err
			}
		}
	}
	if k.count != nil && n != *k.count(c.v.head) {
		c.report("there are %d records of kind %s, the head says %d", n, k.name, *k.count(c.v.head))
	}
	return nil
}
