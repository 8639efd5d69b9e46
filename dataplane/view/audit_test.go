package view

import (
	"fmt"
	"testing"

	"github.com/corvo/corvo/dataplane/state"
)

func (h *shard) audit(n int) {
	h.t.Helper()
	for i := range n {
		h.commit(func(tx *state.Tx) {
			must(h.t, tx.AddAudit(&state.AuditRecord{Principal: "k1", Role: "admin", Method: "POST", Path: fmt.Sprint("/p/", i), Status: 200, Op: "set-queue", Count: 1, RequestId: "r"}))
		})
	}
}

// TestAuditLog checks the table's rows as records are added and trimmed. A refused request makes no event,
// yet the view must show its record.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.audit(1)
	h.says("SELECT id, namespace, principal, role, method, path, status_code, json_extract(metadata, '$.op'), created_at FROM audit_logs",
		"1|g|k1|admin|POST|/p/0|200|set-queue|1970-01-01T00:00:00.001000000Z")
	h.same()
	h.enqueue("q", 1)
	h.audit(3)
	h.says("SELECT count(*), max(id) FROM audit_logs", "4|4")
	h.same()
	h.reopen(nil)
	h.says("SELECT count(*), max(id) FROM audit_logs", "4|4")
	h.commit(func(tx *state.Tx) { must(t, tx.TrimAudit(3)) })
	h.audit(1)
	h.says("SELECT count(*), min(id), max(id) FROM audit_logs", "3|3|5")
	h.same()
	h.reopen(func() {
		h.commit(func(tx *state.Tx) { must(t, tx.TrimAudit(6)) })
	})
	h.audit(2)
	h.says("SELECT count(*), min(id), max(id) FROM audit_logs", "2|6|7")
	h.same()
}

// TestAuditLogOfAnotherHistory changes the newest record of a file, so that it is not the store's. The view
// must then write the audit log again.
func TestAuditLogOfAnotherHistory(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.audit(3)
	h.settle()
	for _, change := range []string{
		"UPDATE audit SET hash = x'00', path = '/other' WHERE seq = 3",
		"INSERT INTO audit SELECT 9, namespace, principal, role, method, path, status, metadata, clock_ns, hash FROM audit WHERE seq = 3",
	} {
		h.reopen(func() {
			db, err := open(h.file(), 1)
			must(t, err)
			_, err = db.writer.conn.ExecContext(t.Context(), change)
			must(t, err)
			must(t, db.close())
		})
		h.audit(1)
		h.same()
	}
}
