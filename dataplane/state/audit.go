package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
)

const auditKeyLen = 1 + 8

func appendAuditKey(b []byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, prefixAudit), seq)
}

func decodeAuditKey(key []byte) (seq uint64, err error) {
	if len(key) != auditKeyLen || key[0] != prefixAudit {
		return 0, errKey(key, "not an audit key")
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

// noHash stands for the hash of the record before the first one.
var noHash [sha256.Size]byte

// Records returns the numbers of the first stored record and of the next one to be written. They are equal if
// no record is stored. Both are 1 if no record was ever written.
func (c *AuditChain) Records() (first, next uint64) {
	return max(c.GetFirstSeq(), 1), max(c.GetNextSeq(), 1)
}

// Newest returns the hash of the newest record, even if that record has been trimmed, or zeros if there was
// none.
func (c *AuditChain) Newest() []byte { return orNoHash(c.GetHash()) }

// Before returns the hash of the record before the first stored one: the last trimmed record's, or zeros.
func (c *AuditChain) Before() []byte { return orNoHash(c.GetAnchor()) }

func orNoHash(hash []byte) []byte {
	if len(hash) == 0 {
		return noHash[:]
	}
	return hash
}

// sum computes the record's hash from its fields and the hash of the record before it.
func (r *AuditRecord) sum(previous []byte) []byte {
	sum := api.AuditHash([sha256.Size]byte(previous), api.AuditFields{
		Seq: r.Seq, AtNs: r.ClockNs, Status: uint64(r.Status), Count: r.Count,
		Principal: r.Principal, Role: r.Role, Method: r.Method, Path: r.Path, RequestID: r.RequestId, Op: r.Op, Remote: r.Remote,
		Nonce: r.Nonce,
	})
	return sum[:]
}

// auditMark identifies a record, so that a repeated op is recognised.
type auditMark struct {
	seq   uint64
	nonce string
	op    string
}

// audited holds the marks of the newest records. They derive from the stored records alone, so a restarted
// replica computes the same ones.
type audited []auditMark

// A repeated op is recognised among the newest auditedKept records. That many suffice, because a server
// repeats an op only while it still answers the request.
const auditedKept = 1024

func (a audited) has(nonce, op string) bool {
	return slices.ContainsFunc(a, func(m auditMark) bool { return m.nonce == nonce && m.op == op })
}

// add appends a record's mark and drops the marks that are too old.
func (a *audited) add(r *AuditRecord) {
	if r.Seq > auditedKept {
		a.trim(r.Seq - auditedKept + 1)
	}
	if len(r.Nonce) > 0 {
		*a = append(*a, auditMark{r.Seq, string(r.Nonce), r.Op})
	}
}

// trim drops the marks of records numbered below first.
func (a *audited) trim(first uint64) {
	*a = slices.DeleteFunc(*a, func(m auditMark) bool { return m.seq < first })
}

func loadAudited(r source, chain *AuditChain) (a audited, err error) {
	first, next := chain.Records()
	if next > auditedKept {
		first = max(first, next-auditedKept)
	}
	for kv, err := range scanPairs(r, appendAuditKey(nil, first), afterPrefix(prefixAudit)) {
		rec := &AuditRecord{}
		if err == nil {
			err = decode(kv, rec)
		}
		if err != nil {
			return nil, err
		}
		a.add(rec)
	}
	return a, nil
}

// AuditRecords returns the number of the first audit record still stored, and as next the number after the
// newest record of earlier entries.
func (tx *Tx) AuditRecords() (first, next uint64) {
	first, _ = tx.head.Audit.Records()
	_, next = tx.s.head.Load().Audit.Records()
	return first, next
}

// Audited reports whether one of the newest auditedKept records has the nonce and the op.
func (tx *Tx) Audited(nonce []byte, op string) bool { return tx.s.audited.has(string(nonce), op) }

// AddAudit appends a record to the audit log at the entry's time. It sets the record's number, time and hash
// and writes the record to the batch at once.
func (tx *Tx) AddAudit(r *AuditRecord) error {
	was := tx.head.Audit
	first, next := was.Records()
	r.Seq, r.ClockNs = next, tx.head.ClockNs
	r.Hash = r.sum(was.Newest())
	tx.key = appendAuditKey(tx.key[:0], r.Seq)
	if err := put(tx.batch, tx.key, r); err != nil {
		return tx.fail(fmt.Errorf("audit record %d: %w", r.Seq, err))
	}
	// The committed head shares the old AuditChain, so it is replaced and never changed.
	tx.head.Audit = &AuditChain{NextSeq: next + 1, FirstSeq: first, Hash: r.Hash, Anchor: was.GetAnchor()}
	tx.s.audited.add(r)
	tx.auditGrew = true
	return nil
}

// TrimAudit removes the records numbered below firstSeq. firstSeq must be at least first and at most next, as
// AuditRecords returns them. The hash of the last removed record becomes the anchor of the chain.
func (tx *Tx) TrimAudit(firstSeq uint64) error {
	chain := tx.head.Audit
	first, next := chain.Records()
	if firstSeq < first || firstSeq > next {
		return tx.fail(fmt.Errorf("trim the audit log to %d: there are the records from %d to before %d", firstSeq, first, next))
	}
	if firstSeq == first {
		return nil
	}
	last := &AuditRecord{}
	tx.key = appendAuditKey(tx.key[:0], firstSeq-1)
	switch found, err := get(tx.s.gen.db, tx.key, last); {
	case err != nil:
		return tx.fail(fmt.Errorf("trim the audit log to %d: read the record before it: %w", firstSeq, err))
	case !found:
		return tx.fail(fmt.Errorf("trim the audit log to %d: there is no record before it in the store", firstSeq))
	}
	// One range tombstone covers all the records, as for usage.
	if err := tx.batch.DeleteRange(appendAuditKey(nil, first), appendAuditKey(nil, firstSeq), nil); err != nil {
		return tx.fail(fmt.Errorf("trim the audit log: %w", err))
	}
	tx.head.Audit = &AuditChain{NextSeq: next, FirstSeq: firstSeq, Hash: chain.Hash, Anchor: last.Hash}
	tx.s.audited.trim(firstSeq)
	return nil
}

// Audit returns an audit record, or nil if there is none with the number.
func (v *Snapshot) Audit(seq uint64) (*AuditRecord, error) {
	r := &AuditRecord{}
	if found, err := get(v.snap, appendAuditKey(nil, seq), r); !found {
		return nil, err
	}
	return r, nil
}

// audit checks that the audit log has no gap and that every record matches its hash.
func (c *checker) audit() error {
	chain := c.v.head.Audit
	next, end := chain.Records()
	hash := chain.Before()
	for kv, err := range scanPairs(c.v.snap, []byte{prefixAudit}, afterPrefix(prefixAudit)) {
		if err != nil {
			return err
		}
		seq, err := decodeAuditKey(kv.Key)
		if err != nil {
			return err
		}
		r := &AuditRecord{}
		if err := decode(kv, r); err != nil {
			return err
		}
		if seq != next || r.Seq != seq {
			c.report("there is audit record %d, stored as %d, where %d is next", r.Seq, seq, next)
		}
		if !bytes.Equal(r.Hash, r.sum(hash)) {
			c.report("audit record %d (%s %s) does not fit its hash, or does not follow the one before it", seq, r.Method, r.Path)
		}
		next, hash = seq+1, orNoHash(r.Hash)
		if len(hash) != sha256.Size {
			c.report("audit record %d has a hash of %d bytes", seq, len(hash))
			hash = noHash[:]
		}
	}
	if next != end || !bytes.Equal(hash, chain.Newest()) {
		c.report("the audit log ends before record %d with the hash %x, the head says %d with %x", next, hash, end, chain.Newest())
	}
	return nil
}
