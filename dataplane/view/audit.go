package view

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/state"
)

// The writer follows audit records by their numbers, as it follows usage. Each record's hash covers all
// records before it, so the hash of the file's newest record proves whether the file belongs to the store's
// history. If it does not, the writer writes the whole audit log again.

const putAuditSQL = `
INSERT OR REPLACE INTO audit (seq, namespace, principal, role, method, path, status, metadata, clock_ns, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// auditSeen records how far the file has followed the audit log.
type auditSeen struct {
	first uint64 // the file holds no record before this number
	hash  []byte // of the newest record
}

// auditChunk is the most records that one call of addAudit adds, and so one transaction of a rebuild.
const auditChunk = 20_000

// behindAudit reports whether the file lacks records of the audit log or holds records that the store has
// trimmed.
func (w *writer) behindAudit(head *state.Head) bool {
	first, _ := head.GetAudit().Records()
	return first != max(w.audited.first, 1) || !bytes.Equal(head.GetAudit().GetHash(), w.audited.hash)
}

// loadAudit writes the whole audit log in transactions of auditChunk records.
func loadAudit(ctx context.Context, w *writer, snap *state.Snapshot) error {
	for more := true; more; {
		if err := w.transact(func() (err error) {
			more, err = w.addAudit(snap, auditChunk)
			return errors.Join(err, ctx.Err())
		}); err != nil {
			return err
		}
	}
	return nil
}

// followAudit makes the file's audit log equal to the store's. It must be called inside a transaction.
func (w *writer) followAudit(snap *state.Snapshot) error {
	if !w.behindAudit(snap.Head()) {
		return nil
	}
	for {
		if more, err := w.addAudit(snap, auditChunk); !more || err != nil {
			return err
		}
	}
}

// addAudit adds up to `most` records and reports whether more are left. After the last one it drops the records
// that the store has trimmed.
func (w *writer) addAudit(snap *state.Snapshot, most uint64) (more bool, err error) {
	head := snap.Head()
	first, next := head.GetAudit().Records()
	from, err := w.auditFrom(snap)
	if err != nil {
		return false, err
	}
	from = max(from, first)
	namespace := namespaceOf(head)
	seq := from
	for ; seq < next && seq-from < most; seq++ {
		r, err := snap.Audit(seq)
		if err == nil && r == nil {
			err = errors.New("there is none")
		}
		if err == nil {
			err = w.audit(namespace, r)
		}
		if err != nil {
			return false, fmt.Errorf("audit record %d: %w", seq, err)
		}
	}
	if seq < next {
		return true, nil
	}
	if err := w.exec(w.trimAudit, int64(first)); err != nil {
		return false, fmt.Errorf("drop the audit records before %d: %w", first, err)
	}
	w.audited = auditSeen{first: first, hash: head.GetAudit().GetHash()}
	return false, nil
}

// auditFrom returns the number of the first record to add. It empties the table if the file's newest record
// is not the store's record of that number, unless the store has merely trimmed that record.
func (w *writer) auditFrom(snap *state.Snapshot) (uint64, error) {
	var newest [2]driver.Value
	if found, err := w.first(w.newestAudit, newest[:]); !found {
		return 1, err
	}
	last, _ := newest[0].(int64)
	hash, _ := newest[1].([]byte)
	r, err := snap.Audit(uint64(last))
	if err != nil || r != nil && bytes.Equal(r.Hash, hash) {
		return uint64(last) + 1, err
	}
	if first, _ := snap.Head().GetAudit().Records(); r == nil && uint64(last) < first {
		return first, nil // the store has trimmed the file's newest record
	}
	return 1, w.exec(w.trimAudit, last+1)
}

// audit writes the row of a record.
func (w *writer) audit(namespace string, r *state.AuditRecord) error {
	metadata, err := json.Marshal(struct {
		RequestID string `json:"request_id,omitempty"`
		Op        string `json:"op,omitempty"`
		Count     uint64 `json:"count"`
		Remote    string `json:"remote,omitempty"`
		Hash      string `json:"hash"`
	}{r.RequestId, r.Op, r.Count, r.Remote, hex.EncodeToString(r.Hash)})
	if err != nil {
		return err
	}
	return w.exec(w.putAudit, int64(r.Seq), namespace, text(r.Principal), text(r.Role), r.Method, r.Path, int64(r.Status), string(metadata), r.ClockNs, r.Hash)
}
