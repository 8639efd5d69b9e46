package api

import (
	"encoding/hex"
	"strings"
	"testing"
)

// chained returns n records that form a chain.
func chained(n int) []AuditRecord {
	all := make([]AuditRecord, n)
	previous := strings.Repeat("0", 64)
	for i := range all {
		all[i] = AuditRecord{Seq: uint64(i + 1), At: "2026-11-22T03:00:00.5Z", Method: "PUT", Path: "/p", Status: 200, Count: 1, Nonce: "00ff", Previous: previous}
		all[i].Hash, _ = all[i].compute()
		previous = all[i].Hash
	}
	return all
}

func TestAuditVerifier(t *testing.T) {
	t.Parallel()
	zero := strings.Repeat("0", 64)
	all := chained(9)
	whole := AuditHead{FirstSeq: 1, Anchor: zero, NextSeq: 10, Hash: all[8].Hash}
	trimmed := AuditHead{FirstSeq: 4, Anchor: all[2].Hash, NextSeq: 10, Hash: all[8].Hash}
	for _, c := range []struct {
		name       string
		stood, now AuditHead
		came       []AuditRecord
		want       string // of the error
	}{
		{"all", whole, whole, all, ""},
		{"it grows", AuditHead{FirstSeq: 1, Anchor: zero, NextSeq: 6, Hash: all[4].Hash}, whole, all, ""},
		{"none", AuditHead{FirstSeq: 1, Anchor: zero, NextSeq: 1, Hash: zero}, whole, nil, ""},
		{"trimmed", trimmed, trimmed, all[3:], ""},
		{"trimmed meanwhile", whole, trimmed, all[3:], ""},
		{"trimmed while it came", whole, trimmed, all, ""},
		{"nothing came", whole, whole, nil, "no record came"},
		{"the first are missing", whole, whole, all[3:], "record 4 came first"},
		{"the last is missing", whole, whole, all[:8], "record 8 came last"},
		{"another log", AuditHead{FirstSeq: 1, Anchor: zero, NextSeq: 10, Hash: all[7].Hash}, whole, all, "record 9 (PUT /p) is not the one"},
		{"another beginning", AuditHead{FirstSeq: 4, Anchor: all[3].Hash, NextSeq: 10, Hash: all[8].Hash}, trimmed, all[3:], "record 4, the first, does not follow"},
	} {
		var v AuditVerifier
		v.Expect(AuditHeads{Shards: []AuditHead{c.stood}})
		var err error
		for _, r := range c.came {
			if err == nil {
				err = v.Add(r)
			}
		}
		if err == nil {
			err = v.Done(AuditHeads{Shards: []AuditHead{c.now}})
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// The first record has no record before it.
	forged := all[0]
	forged.Previous = all[3].Hash
	forged.Hash, _ = forged.compute()
	if err := new(AuditVerifier).Add(forged); err == nil {
		t.Error("a first record that follows another is taken")
	}
	for name, r := range map[string]AuditRecord{
		"at": {Seq: 2, At: "now"}, "nonce": {Seq: 2, At: "2026-11-22T03:00:00Z", Nonce: "x"}, "previous": {Seq: 2, At: "2026-11-22T03:00:00Z", Previous: "ab"},
	} {
		if err := new(AuditVerifier).Add(r); err == nil {
			t.Errorf("a bad %s is taken", name)
		}
	}
}

// docs/audit.md documents the encoding of the hashed fields.
func TestAuditHash(t *testing.T) {
	t.Parallel()
	sum := AuditHash([32]byte{}, AuditFields{
		Seq: 1, AtNs: 1700000000000000000, Status: 201, Count: 1,
		Principal: "k1", Role: "admin", Method: "POST", Path: "/path", RequestID: "r", Op: "set-queue", Remote: "192.0.2.1",
		Nonce: []byte(strings.Repeat("\x07", 16)),
	})
	const want = "b6d46a7a7bdaa605587bba85f02b17500884f783a6bc8620f5be4a2a048e4cac" // computed by another program
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("the hash is %s, was %s", got, want)
	}
}
