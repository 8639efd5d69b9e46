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

// Audit records are followed as usage is, by their numbers. As each one's hash covers
// all before it, the newest one in the file tells whether the file is of the store's
// history: where it is not, the log is written anew.

const putAuditSQL = `
INSERT OR REPLACE INTO audit (seq, namespace, principal, role, method, path, status, metadata, clock_ns, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// auditSeen is how far the file is, as the writer knows.
type auditSeen struct {
	first uint64 // no record before it is there
	hash  []byte // of the newest one
}

// auditChunk is how many records one transaction writes.
const auditChunk = 20_000

// behindAudit says whether the file lacks something of the audit log, or has
// something that the store has no more.
func (w *writer) behindAudit(head *state.Head) bool {
	first, _ := head.GetAudit().Records()
	return first != max(w.audited.first, 1) || !bytes.Equal(head.GetAudit().GetHash(), w.audited.hash)
}

// loadAudit writes the whole audit log.
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

// followAudit makes the file's audit log the store's. It must be called inside a
// transaction.
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

// addAudit adds up to so many records and reports whether there are more.
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

// auditFrom is the number of the first record to add. A file whose newest record is
// not the store's is emptied.
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
		return first, nil // trimmed since
	}
	return 1, w.exec(w.trimAudit, last+1)
}

// audit writes a record.
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
