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

// AuditRow is one change, or refused requests that are alike.
type AuditRow struct {
	Seq       int64
	AtNs      int64
	Org       tenancy.OrgID // whose; "" = the cloud's own
	Principal string        // "" = callers that nobody knows
	Action    string        // the op's name; method and route of refused requests
	Target    string        // "" for refused requests
	Refused   string        // error code of refused requests; "" = the change was made
	Count     int64         // requests that the row stands for
	Batch     string        // id of the RecordRefusals that added the row; "" = a change
	Hash      []byte
}

// chain computes the row's hash: SHA-256 of the hash before it and the row, whose
// numbers take eight bytes, big-endian, and whose texts have their lengths in
// four before them. The form is permanent.
func (r AuditRow) chain(before []byte) []byte {
	b := bytes.Clone(before)
	for _, n := range []int64{r.Seq, r.AtNs, r.Count} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, text := range []string{string(r.Org), r.Principal, r.Action, r.Target, r.Refused, r.Batch} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// audit records that the op which applies now has changed the target.
func (tx *Tx) audit(m *Meta, org tenancy.OrgID, target string) error {
	return tx.addAudit(AuditRow{Org: org, Principal: m.GetPrincipal(), Action: tx.kind.name, Target: target, Count: 1})
}

// addAudit adds a row to the chain, with the next number and the time of the entry.
func (tx *Tx) addAudit(r AuditRow) error {
	r.Seq, r.AtNs = tx.head.auditSeq+1, tx.clockNs()
	r.Hash = r.chain(tx.head.auditHash)
	tx.head.auditSeq, tx.head.auditHash = r.Seq, r.Hash
	return tx.put("INSERT INTO audit ("+auditColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.Seq, r.AtNs, string(r.Org), r.Principal, r.Action, r.Target, r.Refused, r.Count, r.Batch, r.Hash)
}

const auditColumns = "seq, at_ns, org, principal, action, target, refused, count, batch, hash"

func scanAudit(rows *sql.Rows) (r AuditRow, err error) {
	err = rows.Scan(&r.Seq, &r.AtNs, &r.Org, &r.Principal, &r.Action, &r.Target, &r.Refused, &r.Count, &r.Batch, &r.Hash)
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
