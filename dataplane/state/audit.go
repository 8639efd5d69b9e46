package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
)

// auditKeyLen is the length of an audit record's key.
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

// noHash is the hash before the first record.
var noHash [sha256.Size]byte

// Records are the numbers of the first record kept and of the next one. Of a log
// that has not begun both are 1.
func (c *AuditChain) Records() (first, next uint64) {
	return max(c.GetFirstSeq(), 1), max(c.GetNextSeq(), 1)
}

// Newest is the hash of the newest record, whether it is kept or not.
func (c *AuditChain) Newest() []byte { return orNoHash(c.GetHash()) }

// Before is the hash that the first record kept follows.
func (c *AuditChain) Before() []byte { return orNoHash(c.GetAnchor()) }

func orNoHash(hash []byte) []byte {
	if len(hash) == 0 {
		return noHash[:]
	}
	return hash
}

// sum is the hash the record should have after a record with the hash.
func (r *AuditRecord) sum(previous []byte) []byte {
	sum := api.AuditHash([sha256.Size]byte(previous), api.AuditFields{
		Seq: r.Seq, AtNs: r.ClockNs, Status: uint64(r.Status), Count: r.Count,
		Principal: r.Principal, Role: r.Role, Method: r.Method, Path: r.Path, RequestID: r.RequestId, Op: r.Op, Remote: r.Remote,
		Nonce: r.Nonce,
	})
	return sum[:]
}

// auditMark is by what a repeat is known.
type auditMark struct {
	seq   uint64
	nonce string
	op    string
}

// audited are the marks of the newest records. They are a function of the records
// in the store, so that a replica that was restarted has the same.
type audited []auditMark

// auditedKept is how many records back a repeat is known. An op is repeated while its
// request is being answered, by whoever lost the answer of a leader.
const auditedKept = 1024

func (a audited) has(nonce, op string) bool {
	return slices.ContainsFunc(a, func(m auditMark) bool { return m.nonce == nonce && m.op == op })
}

// add adds a record's mark and drops those that are too far back.
func (a *audited) add(r *AuditRecord) {
	if r.Seq > auditedKept {
		a.trim(r.Seq - auditedKept + 1)
	}
	if len(r.Nonce) > 0 {
		*a = append(*a, auditMark{r.Seq, string(r.Nonce), r.Op})
	}
}

// trim drops the marks of records before one.
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

// AuditRecords are the numbers of the first audit record kept and of the one that was
// next before the entry.
func (tx *Tx) AuditRecords() (first, next uint64) {
	first, _ = tx.head.Audit.Records()
	_, next = tx.s.head.Load().Audit.Records()
	return first, next
}

// Audited says whether one of the newest records is of an op that had the nonce.
func (tx *Tx) Audited(nonce []byte, op string) bool { return tx.s.audited.has(string(nonce), op) }

// AddAudit appends a record to the audit log, at the entry's time: it fills in the
// number and the hash. The record is written at once.
func (tx *Tx) AddAudit(r *AuditRecord) error {
	was := tx.head.Audit
	first, next := was.Records()
	r.Seq, r.ClockNs = next, tx.head.ClockNs
	r.Hash = r.sum(was.Newest())
	tx.key = appendAuditKey(tx.key[:0], r.Seq)
	if err := put(tx.batch, tx.key, r); err != nil {
		return tx.fail(fmt.Errorf("audit record %d: %w", r.Seq, err))
	}
	// The head's own is never changed: the committed head has it too.
	tx.head.Audit = &AuditChain{NextSeq: next + 1, FirstSeq: first, Hash: r.Hash, Anchor: was.GetAnchor()}
	tx.s.audited.add(r)
	tx.auditGrew = true
	return nil
}

// TrimAudit removes the records numbered below firstSeq, which must be neither
// before the first one kept nor beyond the newest that an earlier entry has left. The
// log goes on from the hash of the last that is removed.
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
	if found, err := get(tx.s.gen.db, tx.key, last); !found {
		return tx.fail(fmt.Errorf("trim the audit log to %d: there is no record before it in the store: %w", firstSeq, err))
	}
	// One range tombstone, as for usage, however many records it covers.
	if err := tx.batch.DeleteRange(appendAuditKey(nil, first), appendAuditKey(nil, firstSeq), nil); err != nil {
		return tx.fail(fmt.Errorf("trim the audit log: %w", err))
	}
	tx.head.Audit = &AuditChain{NextSeq: next, FirstSeq: firstSeq, Hash: chain.Hash, Anchor: last.Hash}
	tx.s.audited.trim(firstSeq)
	return nil
}

// Audit is a record of the audit log; nil where there is none of the number.
func (v *Snapshot) Audit(seq uint64) (*AuditRecord, error) {
	r := &AuditRecord{}
	if found, err := get(v.snap, appendAuditKey(nil, seq), r); !found {
		return nil, err
	}
	return r, nil
}

// audit checks that the audit log has no gap, and that each record fits its hash.
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
