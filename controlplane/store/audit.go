package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"

	"github.com/corvo/corvo/tenancy"
)

// AuditRow is one change.
type AuditRow struct {
	Seq       int64
	AtNs      int64
	Org       tenancy.OrgID // whose; "" = the cloud's own
	Principal string
	Action    string
	Target    string
	Hash      []byte
}

// chain is the row's hash: SHA-256 of the hash before it and the row, whose
// numbers take eight bytes, big-endian, and whose texts have their lengths in
// four before them. The form is permanent.
func (r AuditRow) chain(before []byte) []byte {
	b := bytes.Clone(before)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(r.AtNs))
	for _, text := range []string{string(r.Org), r.Principal, r.Action, r.Target} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// audit records that the op which applies now has changed the target.
func (tx *Tx) audit(m *Meta, org tenancy.OrgID, target string) error {
	r := AuditRow{
		Seq: tx.head.auditSeq + 1, AtNs: tx.clockNs(), Org: org,
		Principal: m.GetPrincipal(), Action: tx.kind.name, Target: target,
	}
	r.Hash = r.chain(tx.head.auditHash)
	tx.head.auditSeq, tx.head.auditHash = r.Seq, r.Hash
	return tx.put("INSERT INTO audit (seq, at_ns, org, principal, action, target, hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
		r.Seq, r.AtNs, string(r.Org), r.Principal, r.Action, r.Target, r.Hash)
}

const auditColumns = "seq, at_ns, org, principal, action, target, hash"

func scanAudit(rows *sql.Rows) (r AuditRow, err error) {
	err = rows.Scan(&r.Seq, &r.AtNs, &r.Org, &r.Principal, &r.Action, &r.Target, &r.Hash)
	return r, err
}

// Audit lists an organisation's audit rows ("" = all), oldest first, those after
// the given one.
func (s *Store) Audit(ctx context.Context, org tenancy.OrgID, after int64, limit int) ([]AuditRow, error) {
	return read(ctx, s, func(r reader) ([]AuditRow, error) {
		if org == "" {
			return list(r, scanAudit, "SELECT "+auditColumns+" FROM audit WHERE seq > ? ORDER BY seq LIMIT ?", after, page(limit))
		}
		return list(r, scanAudit, "SELECT "+auditColumns+" FROM audit WHERE org = ? AND seq > ? ORDER BY seq LIMIT ?", string(org), after, page(limit))
	})
}

// VerifyAudit recomputes the chain of audit rows; an error names the first that
// does not fit.
func (s *Store) VerifyAudit(ctx context.Context) error {
	_, err := read(ctx, s, func(r reader) (any, error) { return nil, verifyAudit(r) })
	return err
}

func verifyAudit(q querier) error {
	h, err := readHead(q)
	if err != nil {
		return err
	}
	last := AuditRow{Hash: make([]byte, sha256.Size)}
	for {
		rows, err := list(q, scanAudit, "SELECT "+auditColumns+" FROM audit WHERE seq > ? ORDER BY seq LIMIT ?", last.Seq, MaxPage)
		if err != nil {
			return err
		}
		for _, r := range rows {
			switch {
			case r.Seq != last.Seq+1:
				return tampered("row %d is missing", last.Seq+1)
			case !bytes.Equal(r.Hash, r.chain(last.Hash)):
				return tampered("row %d (%s of %s) does not fit its hash", r.Seq, r.Action, r.Target)
			}
			last = r
		}
		if len(rows) < MaxPage {
			break
		}
	}
	if last.Seq != h.auditSeq || !bytes.Equal(last.Hash, h.auditHash) {
		return tampered("it ends at row %d, it was written up to row %d", last.Seq, h.auditSeq)
	}
	return nil
}

func tampered(format string, args ...any) error {
	return unhealthy("the audit log was changed: %s; compare it with an export or a backup", fmt.Sprintf(format, args...))
}
