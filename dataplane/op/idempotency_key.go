package op

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/optable"
)

// Memory bounds the idempotency keys that a shard remembers. At a bound, requests with new keys are refused
// with OVERLOADED until old keys have expired and PurgeIdempotency has deleted them. No key is forgotten early,
// because its client may still repeat the request.
type Memory struct {
	Records uint64
	// Bytes bounds the remembered results. A key is accepted as long as fewer bytes are in use, so one
	// result may exceed the bound.
	Bytes uint64
}

// DefaultMemory returns the bounds of a shard.
func DefaultMemory() Memory {
	return Memory{Records: job.MaxIdempotencyRecords, Bytes: job.MaxIdempotencyBytes}
}

// recordID returns the id of an idempotency key's record. It hashes the principal with the key, so that the
// same key of two principals has two records.
func recordID(principal, key string) [16]byte {
	h := sha256.New()
	h.Write([]byte(principal))
	h.Write([]byte{0})
	h.Write([]byte(key))
	return [16]byte(h.Sum(nil)[:16])
}

// Remembered returns the result of an earlier op of the same principal with o's idempotency key, or nil if
// this replica has none or the result has expired. A key used for another request is refused with
// IDEMPOTENCY_MISMATCH. The proposer thus answers a repeat without waiting for an entry. If Remembered
// returns nil, o may still be a repeat, which Apply recognises.
func Remembered(store *state.Store, o Op, nowNs int64) (Result, error) {
	key := o.GetMeta().GetIdempotency()
	if key == nil {
		return nil, nil
	}
	id := recordID(o.GetMeta().GetPrincipal(), key.Key)
	record, err := store.Idempotency(id)
	if err != nil || !live(record, nowNs) {
		return nil, err
	}
	return KindFor(o).remembered(id, key, record)
}

// live reports whether there is a record that has not expired. An expired record counts as forgotten even
// before PurgeIdempotency deletes it.
func live(record *state.Idempotency, nowNs int64) bool {
	return record != nil && record.ExpiresNs > nowNs
}

// forgettable is a Result that can say that its op did nothing. Such a result is not remembered, because a
// repeat may do more.
type forgettable interface {
	didNothing() bool
}

// applyOnce applies an op and remembers its result under its idempotency key. If the key has a remembered
// result, applyOnce returns that result instead, and remembered is true. It does not remember a refusal, or
// the result of an op that did nothing, because the client may correct the request or try again.
func (m *Machine) applyOnce(tx *state.Tx, k *Kind, o Op) (result Result, remembered bool, err error) {
	key := o.GetMeta().GetIdempotency()
	if key == nil {
		result, err = k.Apply(tx, o)
		return result, false, err
	}
	id := recordID(o.GetMeta().GetPrincipal(), key.Key)
	record, err := tx.Idempotency(id)
	if err != nil {
		return nil, false, err
	}
	if live(record, tx.ClockNs()) {
		result, err = k.remembered(id, key, record)
		return result, err == nil, err
	}
	if record == nil {
		if err := m.admitKey(tx); err != nil {
			return nil, false, err
		}
	}
	result, err = k.Apply(tx, o)
	if err != nil {
		return nil, false, err
	}
	if f, ok := result.(forgettable); ok && f.didNothing() {
		return result, false, nil
	}
	data, err := k.EncodeResult(result)
	if err != nil {
		return nil, false, err
	}
	return result, false, tx.PutIdempotency(id, &state.Idempotency{
		RequestHash: key.RequestHash,
		Op:          uint32(k.Number),
		Result:      data,
		ExpiresNs:   tx.ClockNs() + int64(job.IdempotencyPeriod),
	})
}

// remembered returns the stored result of an idempotency key. It refuses with IDEMPOTENCY_MISMATCH if the key
// was used for another request.
func (k *Kind) remembered(id [16]byte, key *Idempotency, record *state.Idempotency) (Result, error) {
	if record.Op != uint32(k.Number) || !bytes.Equal(record.RequestHash, key.RequestHash) {
		return nil, api.Errorf(api.IdempotencyMismatch, "this Idempotency-Key was used for another request; use a new key for a new request")
	}
	result := k.NewResult()
	if err := optable.Unmarshal(record.Result, result); err != nil {
		return nil, fmt.Errorf("idempotency record %x: decode the result of %s: %w", id, k.Name, err)
	}
	return result, nil
}

// admitKey refuses a new key with OVERLOADED at a bound. It runs before the op applies, because a refused op
// must have written nothing.
func (m *Machine) admitKey(tx *state.Tx) error {
	head := tx.Head()
	if head.IdempotencyRecords < m.Memory.Records && head.IdempotencyBytes < m.Memory.Bytes {
		return nil
	}
	refusal := api.Errorf(api.Overloaded, "the store of Idempotency-Keys is full: try again later, or send the request without a key")
	due, ok, err := m.store.NextDue(state.TimerIdempotency)
	if err != nil {
		return fmt.Errorf("read the first idempotency timer: %w", err)
	}
	refusal.RetryAfter = time.Second
	if ok {
		// At that time the first of the remembered keys expires.
		refusal.RetryAfter = max(refusal.RetryAfter, time.Duration(due-tx.ClockNs()))
	}
	return refusal
}
