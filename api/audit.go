package api

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

// AuditRecord is one record of a data plane's audit log. It stands for one op of a management request, or for
// Count equal requests that proposed no op, such as refused requests and requests about the node itself. The
// records of a shard form a chain: Hash covers the record and the hash of the record before it.
type AuditRecord struct {
	Shard     uint32 `json:"shard"`
	Seq       uint64 `json:"seq"` // within the shard, from 1, without gaps
	At        Time   `json:"at"`
	Principal string `json:"principal"` // id of a key, or "open"; "" = unknown
	Role      string `json:"role"`
	Method    string `json:"method"`
	Path      string `json:"path"` // without the query; for a refusal without an op, the route or "unmatched"
	Status    int    `json:"status"`
	RequestID string `json:"request_id"`
	Op        string `json:"op"`    // name of the op; "" = the request had none
	Count     uint64 `json:"count"` // number of equal requests
	Remote    string `json:"remote"`
	Nonce     string `json:"nonce"`    // hex
	Previous  string `json:"previous"` // hex SHA-256 of the record before it
	Hash      string `json:"hash"`     // hex SHA-256
}

// AuditPage is a page of the audit log.
type AuditPage struct {
	Records []AuditRecord `json:"records"`
	Cursor  string        `json:"cursor,omitempty"`
	HasMore bool          `json:"has_more"`
}

// AuditHeads lists the present end of the audit log of each shard.
type AuditHeads struct {
	Shards []AuditHead `json:"shards"`
}

// AuditHead describes a shard's audit log: it has the records from FirstSeq up to, but not including,
// NextSeq. Anchor is the hash before its first record. Hash is the hash of its last record.
type AuditHead struct {
	Shard    uint32 `json:"shard"`
	FirstSeq uint64 `json:"first_seq"`
	Anchor   string `json:"anchor"`
	NextSeq  uint64 `json:"next_seq"`
	Hash     string `json:"hash"`
}

// AuditFields are the fields that the hash of an audit record covers. Their order and encoding never
// change.
type AuditFields struct {
	Seq           uint64
	AtNs          int64 // Unix nanoseconds
	Status, Count uint64

	Principal, Role, Method, Path, RequestID, Op, Remote string

	Nonce []byte
}

// AuditHash computes the hash of a record: the SHA-256 of the previous record's hash (32 zero bytes for the
// first record) and the fields in their order. A number is encoded in eight bytes, big-endian. A text, or the
// nonce, follows its length in four bytes, big-endian.
func AuditHash(previous [sha256.Size]byte, f AuditFields) [sha256.Size]byte {
	b := make([]byte, 0, 512)
	b = append(b, previous[:]...)
	for _, n := range [...]uint64{f.Seq, uint64(f.AtNs), f.Status, f.Count} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, text := range [...]string{f.Principal, f.Role, f.Method, f.Path, f.RequestID, f.Op, f.Remote, string(f.Nonce)} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return sha256.Sum256(b)
}

// compute returns the hash that the record should have.
func (r *AuditRecord) compute() (string, error) {
	at, ok, err := r.At.Parse()
	if err != nil || !ok {
		return "", fmt.Errorf("at %q is no time", r.At)
	}
	nonce, err := hex.DecodeString(r.Nonce)
	if err != nil {
		return "", fmt.Errorf("nonce: %w", err)
	}
	previous, err := auditHash(r.Previous)
	if err != nil {
		return "", fmt.Errorf("previous: %w", err)
	}
	sum := AuditHash(previous, AuditFields{
		Seq: r.Seq, AtNs: at.UnixNano(), Status: uint64(r.Status), Count: r.Count,
		Principal: r.Principal, Role: r.Role, Method: r.Method, Path: r.Path, RequestID: r.RequestID, Op: r.Op, Remote: r.Remote,
		Nonce: nonce,
	})
	return hex.EncodeToString(sum[:]), nil
}

func auditHash(text string) (sum [sha256.Size]byte, err error) {
	if len(text) != hex.EncodedLen(len(sum)) {
		return sum, fmt.Errorf("%q is no SHA-256 in hex", text)
	}
	_, err = hex.Decode(sum[:], []byte(text))
	return sum, err
}

// AuditVerifier verifies the chains of an audit log from its records, without the server. A person who stored
// AuditHeads earlier can detect any later change to the records before these heads, unless the server has
// deleted the records since. The zero AuditVerifier is ready for use.
type AuditVerifier struct {
	shards map[uint32]*AuditHead
	stood  map[uint32]AuditHead // the heads given to Expect
}

// Expect sets heads that the logs had earlier. Call it before the first Add. The added records of each shard
// must reach its head and may continue after it.
func (v *AuditVerifier) Expect(heads AuditHeads) {
	v.stood = map[uint32]AuditHead{}
	for _, h := range heads.Shards {
		v.stood[h.Shard] = h
	}
}

// Done returns an error if a record before the expected heads was not added, or if the first added record
// does not follow the hash with which the log begins. Call it after the last Add. `now` has the present heads
// of the logs: Done does not expect records before their FirstSeq, because those have been deleted. Done
// checks only shards that are in `now` and were given to Expect.
func (v *AuditVerifier) Done(now AuditHeads) error {
	for _, end := range now.Shards {
		stood, expected := v.stood[end.Shard]
		if !expected || stood.FirstSeq == stood.NextSeq || end.FirstSeq >= stood.NextSeq {
			continue // no record was expected, or the expected ones are deleted
		}
		seen := v.shards[end.Shard]
		switch {
		case seen == nil:
			return fmt.Errorf("shard %d: no record came of those from %d to before %d", end.Shard, stood.FirstSeq, stood.NextSeq)
		case seen.FirstSeq < stood.FirstSeq || seen.FirstSeq > end.FirstSeq:
			return fmt.Errorf("shard %d: record %d came first, the log begins with record %d", end.Shard, seen.FirstSeq, end.FirstSeq)
		case seen.FirstSeq == stood.FirstSeq && seen.Anchor != stood.Anchor, seen.FirstSeq == end.FirstSeq && seen.Anchor != end.Anchor:
			return fmt.Errorf("shard %d: record %d, the first, does not follow the hash that the log begins with", end.Shard, seen.FirstSeq)
		case seen.NextSeq < stood.NextSeq:
			return fmt.Errorf("shard %d: record %d came last, the log goes on to record %d", end.Shard, seen.NextSeq-1, stood.NextSeq-1)
		}
	}
	return nil
}

// Add checks that r is intact and follows the record of the same shard that was added before it, and that the
// chain matches the expected head. The first record of a shard may have any number. The error says what does
// not match.
func (v *AuditVerifier) Add(r AuditRecord) error {
	if v.shards == nil {
		v.shards = map[uint32]*AuditHead{}
	}
	at := v.shards[r.Shard]
	if at == nil {
		at = &AuditHead{Shard: r.Shard, FirstSeq: r.Seq, Anchor: r.Previous, NextSeq: r.Seq, Hash: r.Previous}
		v.shards[r.Shard] = at
		var none [sha256.Size]byte
		if r.Seq == 1 && r.Previous != hex.EncodeToString(none[:]) {
			return auditBroken(r, "is the first and says that there is one before it")
		}
	}
	switch {
	case r.Seq != at.NextSeq:
		return fmt.Errorf("shard %d: record %d is missing: record %d follows", r.Shard, at.NextSeq, r.Seq)
	case r.Previous != at.Hash:
		return auditBroken(r, "does not follow the one before it: its previous is %s, the hash there %s", r.Previous, at.Hash)
	}
	computed, err := r.compute()
	switch {
	case err != nil:
		return auditBroken(r, "cannot be read: %v", err)
	case computed != r.Hash:
		return auditBroken(r, "does not fit its hash: it says %s, its content comes to %s", r.Hash, computed)
	}
	at.NextSeq, at.Hash = r.Seq+1, r.Hash
	if stood, ok := v.stood[r.Shard]; ok && stood.NextSeq == at.NextSeq && stood.Hash != at.Hash {
		return auditBroken(r, "is not the one that the log had: the hash there is %s, here %s", stood.Hash, at.Hash)
	}
	return nil
}

func auditBroken(r AuditRecord, format string, args ...any) error {
	return fmt.Errorf("shard %d: record %d (%s %s) "+format, append([]any{r.Shard, r.Seq, r.Method, r.Path}, args...)...)
}

// Heads returns the heads of the logs that the added records form, sorted by shard.
func (v *AuditVerifier) Heads() AuditHeads {
	heads := AuditHeads{Shards: []AuditHead{}}
	for _, at := range v.shards {
		heads.Shards = append(heads.Shards, *at)
	}
	slices.SortFunc(heads.Shards, func(a, b AuditHead) int { return cmp.Compare(a.Shard, b.Shard) })
	return heads
}
