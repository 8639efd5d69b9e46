package store

import (
	"bytes"
	"database/sql"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/optable"
)

// remembered is the stored result of an earlier request.
type remembered struct {
	requestHash []byte
	op          int64
	result      []byte
	expiresNs   int64
}

func scanRemembered(rows *sql.Rows) (r remembered, err error) {
	err = rows.Scan(&r.requestHash, &r.op, &r.result, &r.expiresNs)
	return r, err
}

// applyOnce applies an op, or returns the result that its idempotency key already has. It refuses with
// IDEMPOTENCY_MISMATCH a key that was used for another request, and with OVERLOADED a new key at the limit. A
// refusal is not stored, so that the client may correct the request and try again.
func (tx *Tx) applyOnce(o op) (result, error) {
	key := o.GetMeta().GetIdempotency()
	if key == nil {
		return tx.kind.Apply(tx, o)
	}
	principal := o.GetMeta().GetPrincipal()
	record, found, err := first(tx, scanRemembered,
		"SELECT request_hash, op, result, expires_ns FROM idempotency WHERE principal = ? AND key = ?", principal, key.Key)
	if err != nil {
		return nil, err
	}
	// An expired record counts as forgotten, even before it is purged.
	if found && record.expiresNs > tx.clockNs() {
		return repeat(tx.kind, key, record)
	}
	if found {
		if err := tx.put("DELETE FROM idempotency WHERE principal = ? AND key = ?", principal, key.Key); err != nil {
			return nil, err
		}
		tx.head.idempotencyRecords--
	}
	if err := tx.admitKey(); err != nil {
		return nil, err
	}
	answer, err := tx.kind.Apply(tx, o)
	if err != nil {
		return nil, err
	}
	data, err := tx.kind.EncodeResult(answer)
	if err != nil {
		return nil, err
	}
	tx.head.idempotencyRecords++
	return answer, tx.put("INSERT INTO idempotency (principal, key, request_hash, op, result, expires_ns) VALUES (?, ?, ?, ?, ?, ?)",
		principal, key.Key, key.RequestHash, int64(tx.kind.Number), nonNil(data), tx.clockNs()+int64(IdempotencyPeriod))
}

// repeat returns the result of the earlier request with the same key, and refuses the key if that request was
// another one.
func repeat(k *kind, key *Idempotency, record remembered) (result, error) {
	if record.op != int64(k.Number) || !bytes.Equal(record.requestHash, key.RequestHash) {
		return nil, api.Errorf(api.IdempotencyMismatch, "this Idempotency-Key was used for another request; use a new key for a new request")
	}
	answer := k.NewResult()
	if err := optable.Unmarshal(record.result, answer); err != nil {
		return nil, fmt.Errorf("decode the remembered result: %w", err)
	}
	return answer, nil
}

// admitKey refuses a new key at the limit. No key is forgotten early, because its client may still repeat the
// request.
func (tx *Tx) admitKey() error {
	if tx.head.idempotencyRecords < tx.limits.idempotency {
		return nil
	}
	refusal := api.Errorf(api.Overloaded, "the store of Idempotency-Keys is full (%d): try again later, or send the request without a key", tx.limits.idempotency)
	due, err := number(tx, "SELECT expires_ns FROM idempotency ORDER BY expires_ns, principal, key LIMIT 1")
	if err != nil {
		return err
	}
	refusal.RetryAfter = max(time.Second, time.Duration(due-tx.clockNs()))
	return refusal
}

// purge removes at most the given number of expired idempotency records, and as many credentials that expired
// at least ExpiredKept ago. It runs after the ops of an entry, so that the result of no op depends on the
// number of rows that purge removes.
func (tx *Tx) purge(most int) error {
	n, err := tx.exec(`DELETE FROM idempotency WHERE (principal, key) IN
		(SELECT principal, key FROM idempotency WHERE expires_ns <= ? ORDER BY expires_ns, principal, key LIMIT ?)`, tx.clockNs(), most)
	if err != nil {
		return fmt.Errorf("purge idempotency keys: %w", err)
	}
	tx.head.idempotencyRecords -= n
	over, err := list(tx, scalar[string],
		"SELECT id FROM credentials WHERE expires_ns > 0 AND expires_ns <= ? ORDER BY expires_ns, id LIMIT ?", tx.clockNs()-int64(ExpiredKept), most)
	if err != nil {
		return fmt.Errorf("purge credentials: %w", err)
	}
	for _, id := range over {
		if err := tx.dropCredential(id); err != nil {
			return fmt.Errorf("purge credentials: %w", err)
		}
	}
	return nil
}

// nonNil returns b, or an empty slice for nil, so that SQL does not store NULL.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
