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

// Audit lists the audit rows of an organisation, of none ("") or all of them
// (tenancy.EveryOrg), oldest first, those after the given one.
func (s *Store) Audit(ctx context.Context, org tenancy.OrgID, after int64, limit int) ([]AuditRow, error) {
	return read(ctx, s, func(r reader) ([]AuditRow, error) {
		if org == tenancy.EveryOrg {
			return list(r, scanAudit, "SELECT "+auditColumns+" FROM audit WHERE seq > ? ORDER BY seq LIMIT ?", after, page(limit))
		}
		return list(r, scanAudit, "SELECT "+auditColumns+" FROM audit WHERE org = ? AND seq > ? ORDER BY seq LIMIT ?", string(org), after, page(limit))
	})
}

// AuditPlace is a row of the audit log up to which the chain was found whole. The zero
// value is the place before the first row.
type AuditPlace struct {
	Seq  int64
	Hash []byte
}

// AuditCheck is the outcome of checking a part of the chain.
type AuditCheck struct {
	Last   AuditPlace  // the last row that fits
	Broken *AuditBreak // nil = every row that was checked fits
	More   bool        // rows may follow: go on after Last
}

// AuditBreak is the first row of the audit log that does not fit.
type AuditBreak struct {
	Seq  int64
	What string
}

func (b *AuditBreak) Error() string {
	return fmt.Sprintf("the audit log was changed: %s; compare it with an export or a backup", b.What)
}

// CheckAudit recomputes the chain of audit rows after a place, at most limit of them.
func (s *Store) CheckAudit(ctx context.Context, after AuditPlace, limit int) (AuditCheck, error) {
	return read(ctx, s, func(r reader) (AuditCheck, error) { return checkAudit(r, after, page(limit)) })
}

// VerifyAudit recomputes the whole chain of audit rows; an error names the first row that
// does not fit.
func (s *Store) VerifyAudit(ctx context.Context) error {
	_, err := read(ctx, s, func(r reader) (any, error) { return nil, verifyAudit(r) })
	return err
}

func verifyAudit(q querier) error {
	check := AuditCheck{More: true}
	for check.More {
		var err error
		if check, err = checkAudit(q, check.Last, MaxPage); err != nil {
			return err
		}
	}
	if check.Broken != nil {
		return unhealthy("%s", check.Broken.Error())
	}
	return nil
}

func checkAudit(q querier, last AuditPlace, limit int) (AuditCheck, error) {
	h, err := readHead(q)
	if err != nil {
		return AuditCheck{}, err
	}
	rows, err := list(q, scanAudit, "SELECT "+auditColumns+" FROM audit WHERE seq > ? ORDER BY seq LIMIT ?", last.Seq, limit)
	if err != nil {
		return AuditCheck{}, err
	}
	if last.Seq == 0 {
		last.Hash = make([]byte, sha256.Size)
	}
	broken := func(seq int64, format string, args ...any) (AuditCheck, error) {
		return AuditCheck{Last: last, Broken: &AuditBreak{Seq: seq, What: fmt.Sprintf(format, args...)}}, nil
	}
	for _, r := range rows {
		switch {
		case r.Seq != last.Seq+1:
			return broken(last.Seq+1, "row %d is missing", last.Seq+1)
		case !bytes.Equal(r.Hash, r.chain(last.Hash)):
			return broken(r.Seq, "row %d (%s of %s) does not fit its hash", r.Seq, r.Action, r.Target)
		}
		last = AuditPlace{Seq: r.Seq, Hash: r.Hash}
	}
	// A full page proves nothing about the end: there may be rows beyond the head.
	if len(rows) == limit {
		return AuditCheck{Last: last, More: true}, nil
	}
	if last.Seq != h.auditSeq || !bytes.Equal(last.Hash, h.auditHash) {
		return broken(min(last.Seq, h.auditSeq)+1, "it ends at row %d, it was written up to row %d", last.Seq, h.auditSeq)
	}
	return AuditCheck{Last: last}, nil
}
