package convert

import (
	"encoding/hex"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// ToAuditRecord converts a record of a shard's audit log to its API form. previous is the hash of the record
// before it.
func ToAuditRecord(shard uint32, r *state.AuditRecord, previous []byte) api.AuditRecord {
	return api.AuditRecord{
		Shard: shard, Seq: r.Seq, At: timeOf(r.ClockNs), Principal: r.Principal, Role: r.Role, Method: r.Method, Path: r.Path,
		Status: int(r.Status), RequestID: r.RequestId, Op: r.Op, Count: r.Count, Remote: r.Remote,
		Nonce: hex.EncodeToString(r.Nonce), Previous: hex.EncodeToString(previous), Hash: hex.EncodeToString(r.Hash),
	}
}

// ToAuditHead converts the head of a shard's audit log to its API form; nil is the head of an empty log.
func ToAuditHead(shard uint32, c *state.AuditChain) api.AuditHead {
	first, next := c.Records()
	return api.AuditHead{
		Shard: shard, FirstSeq: first, Anchor: hex.EncodeToString(c.Before()), NextSeq: next, Hash: hex.EncodeToString(c.Newest()),
	}
}
