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

// AuditRow is one change, or a number of equal refused requests.
type AuditRow struct {
	Seq       int64
	AtNs      int64
	Org       tenancy.OrgID // of the target or the caller; "" = the cloud itself
	Principal string        // "" = unauthenticated callers
	Action    string        // the op's name; for refused requests the method and route
	Target    string        // "" for refused requests
	Refused   string        // error code of refused requests; "" = the change was made
	Count     int64         // number of requests that the row records
	Batch     string        // id of the RecordRefusals that added the row; "" = a change
	Hash      []byte
}

// chain computes the row's hash: the SHA-256 of the previous hash followed by the row. Numbers are encoded in
// eight bytes, big-endian. Each text follows its length in four bytes. This format is permanent.
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

// audit records that the op being applied has changed the target.
func (tx *Tx) audit(m *Meta, org tenancy.OrgID, target string) error {
	return tx.addAudit(AuditRow{Org: org, Principal: m.GetPrincipal(), Action: tx.kind.Name, Target: target, Count: 1})
}

// Changes and refused requests share one sequence of numbers, but each has a hash chain of its own: the
// oldest refused requests are removed, and the changes must verify without them.

// isRefusal reports whether the row belongs to the chain of refused requests.
func (r AuditRow) isRefusal() bool { return r.Batch != "" }

// addAudit adds a row to its chain, with the next number and the time of the entry.
func (tx *Tx) addAudit(r AuditRow) error {
	newest := &tx.head.auditHash
	if r.isRefusal() {
		newest = &tx.head.refusedHash
	}
	r.Seq, r.AtNs = tx.head.auditSeq+1, tx.clockNs()
	r.Hash = r.chain(*newest)
	tx.head.auditSeq, *newest = r.Seq, r.Hash
	return tx.put("INSERT INTO audit ("+auditColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.Seq, r.AtNs, string(r.Org), r.Principal, r.Action, r.Target, r.Refused, r.Count, r.Batch, r.Hash)
}

// purgeRefusals removes up to most rows of refused requests that are older than RefusalsKept. The head keeps
// the hash of the last removed row, so that the rest of the chain can be verified.
func (tx *Tx) purgeRefusals(most int) error {
	over, err := list(tx, scanAudit, "SELECT "+auditColumns+" FROM audit WHERE batch <> '' AND at_ns <= ? ORDER BY at_ns, seq LIMIT ?", tx.clockNs()-int64(RefusalsKept), most)
	if err != nil || len(over) == 0 {
		return err
	}
	last := over[len(over)-1]
	n, err := tx.exec("DELETE FROM audit WHERE batch <> '' AND at_ns <= ? AND seq <= ?", last.AtNs, last.Seq)
	if err == nil && n != int64(len(over)) {
		err = fmt.Errorf("%d rows of refused requests up to %d were removed, where %d were found", n, last.Seq, len(over))
	}
	tx.head.refusedAnchor, tx.head.refusedRemoved = last.Hash, last.Seq
	return err
}

const auditColumns = "seq, at_ns, org, principal, action, target, refused, count, batch, hash"

func scanAudit(rows *sql.Rows) (r AuditRow, err error) {
	err = rows.Scan(&r.Seq, &r.AtNs, &r.Org, &r.Principal, &r.Action, &r.Target, &r.Refused, &r.Count, &r.Batch, &r.Hash)
	return r, err
}

// Audit lists at most limit audit rows, and at most MaxPage, with numbers above after, oldest first: those of
// an organisation, those without one (org "") or all (tenancy.EveryOrg).
func (s *Store) Audit(ctx context.Context, org tenancy.OrgID, after int64, limit int) ([]AuditRow, error) {
	return read(ctx, s, func(r reader) ([]AuditRow, error) {
		if org == tenancy.EveryOrg {
			return list(r, scanAudit, "SELECT "+auditColumns+" FROM audit WHERE seq > ? ORDER BY seq LIMIT ?", after, page(limit))
		}
		return list(r, scanAudit, "SELECT "+auditColumns+" FROM audit WHERE org = ? AND seq > ? ORDER BY seq LIMIT ?", string(org), after, page(limit))
	})
}

// AuditPosition is a position in the audit log. Both chains were verified up to it. The zero value is the
// position before the first row.
type AuditPosition struct {
	Seq         int64
	Hash        []byte // of the last change up to Seq
	RefusedHash []byte // of the last refused requests up to Seq
}

// AuditCheck is the outcome of checking a part of the audit log.
type AuditCheck struct {
	Last    AuditPosition // the position after the last row that was verified
	Broken  *AuditBreak   // nil = every checked row is valid
	More    bool          // rows may follow: continue after Last
	Removed int64         // refused requests up to this number were removed for their age
}

// AuditBreak describes the first row of the audit log that fails verification.
type AuditBreak struct {
	Seq  int64
	What string
}

func (b *AuditBreak) Error() string {
	return fmt.Sprintf("the audit log was changed: %s; compare it with an export or a backup", b.What)
}

// CheckAudit verifies at most limit and at most MaxPage audit rows after a position. limit is at least 1.
// CheckAudit reports a broken chain in the result, not as an error.
func (s *Store) CheckAudit(ctx context.Context, after AuditPosition, limit int) (AuditCheck, error) {
	return read(ctx, s, func(r reader) (AuditCheck, error) { return checkAudit(r, after, page(limit)) })
}

// VerifyAudit verifies the whole audit log. If a row fails, the error is UNHEALTHY and names the first such
// row.
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

func checkAudit(q querier, last AuditPosition, limit int) (AuditCheck, error) {
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
	if last.Seq <= h.refusedRemoved { // rows may have been removed since the position was read
		last.RefusedHash = h.refusedAnchor
	}
	for _, r := range rows {
		if broken := last.follow(r, h.refusedRemoved); broken != nil {
			return AuditCheck{Last: last, Broken: broken, Removed: h.refusedRemoved}, nil
		}
	}
	// After a full page more rows may follow, even beyond the head, so the end is not compared yet.
	check := AuditCheck{Last: last, More: len(rows) == limit, Removed: h.refusedRemoved}
	if !check.More {
		check.Broken = last.end(h)
	}
	return check, nil
}

// follow verifies the next row and moves the position to it. Refused requests up to removed are gone, so
// numbers may be missing there.
func (p *AuditPosition) follow(r AuditRow, removed int64) *AuditBreak {
	newest := &p.Hash
	if r.isRefusal() {
		newest = &p.RefusedHash
	}
	switch missing := max(p.Seq, removed) + 1; {
	case missing < r.Seq:
		return &AuditBreak{Seq: missing, What: fmt.Sprintf("row %d is missing", missing)}
	case r.isRefusal() && r.Seq <= removed:
		return &AuditBreak{Seq: r.Seq, What: fmt.Sprintf("row %d (%s) is there, and was removed", r.Seq, r.Action)}
	case !bytes.Equal(r.Hash, r.chain(*newest)):
		return &AuditBreak{Seq: r.Seq, What: fmt.Sprintf("row %d (%s of %s) does not fit its hash", r.Seq, r.Action, r.Target)}
	}
	p.Seq, *newest = r.Seq, r.Hash
	return nil
}

// end compares the position after the last row with the head.
func (p *AuditPosition) end(h head) *AuditBreak {
	last := max(p.Seq, h.refusedRemoved)
	if last == h.auditSeq && bytes.Equal(p.Hash, h.auditHash) && bytes.Equal(p.RefusedHash, h.refusedHash) {
		return nil
	}
	return &AuditBreak{Seq: min(last, h.auditSeq) + 1, What: fmt.Sprintf("it ends at row %d, it was written up to row %d", last, h.auditSeq)}
}
