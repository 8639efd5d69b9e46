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

// Changes and refused requests are numbered together, and each are a chain of their own:
// the oldest refused requests are removed, and the changes must verify without them.

// isRefusal says whether the row is one of the chain of refused requests.
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

// purgeRefusals removes up to most rows of refused requests whose time is over. The head
// keeps the hash of the last of them, from which the chain of the others can be verified.
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

// AuditPlace is a row of the audit log up to which both chains were found whole. The zero
// value is the place before the first row.
type AuditPlace struct {
	Seq         int64
	Hash        []byte // of the last row of a change up to there
	RefusedHash []byte // of the last row of refused requests up to there
}

// AuditCheck is the outcome of checking a part of the chain.
type AuditCheck struct {
	Last    AuditPlace  // the last row that fits
	Broken  *AuditBreak // nil = every row that was checked fits
	More    bool        // rows may follow: go on after Last
	Removed int64       // refused requests up to this row were removed when their time was over
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
	if last.Seq <= h.refusedRemoved { // they may have been removed since that place was read
		last.RefusedHash = h.refusedAnchor
	}
	for _, r := range rows {
		if broken := last.follow(r, h.refusedRemoved); broken != nil {
			return AuditCheck{Last: last, Broken: broken, Removed: h.refusedRemoved}, nil
		}
	}
	// A full page proves nothing about the end: there may be rows beyond the head.
	check := AuditCheck{Last: last, More: len(rows) == limit, Removed: h.refusedRemoved}
	if !check.More {
		check.Broken = last.end(h)
	}
	return check, nil
}

// follow moves the place on to the next row, if that fits. Up to removed only changes are
// there, so a number may be missing.
func (p *AuditPlace) follow(r AuditRow, removed int64) *AuditBreak {
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

// end compares the place after the last row with the head.
func (p *AuditPlace) end(h head) *AuditBreak {
	last := max(p.Seq, h.refusedRemoved)
	if last == h.auditSeq && bytes.Equal(p.Hash, h.auditHash) && bytes.Equal(p.RefusedHash, h.refusedHash) {
		return nil
	}
	return &AuditBreak{Seq: min(last, h.auditSeq) + 1, What: fmt.Sprintf("it ends at row %d, it was written up to row %d", last, h.auditSeq)}
}
