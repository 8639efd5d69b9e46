package transport

import (
	"encoding/binary"

	"github.com/hashicorp/raft"
)

// These functions encode and decode raft's messages. Decoded messages alias their input, which nothing else
// uses.

func appendRPCHeader(to []byte, h raft.RPCHeader) []byte {
	to = binary.AppendUvarint(to, uint64(h.ProtocolVersion))
	to = appendBytes(to, h.ID)
	return appendBytes(to, h.Addr)
}

func (c *cursor) rpcHeader() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersion(c.small()), ID: c.bytes(), Addr: c.bytes()}
}

// small decodes a number that fits into an int on every platform.
func (c *cursor) small() int {
	n := c.uint()
	if n > 1<<31-1 {
		c.fail("a number is too large")
		return 0
	}
	return int(n)
}

// appendAppendRequest omits the fields that raft fills for members that do not know the RPC header, because
// every member knows it. The header names the leader or candidate.
func appendAppendRequest(to []byte, r *raft.AppendEntriesRequest) []byte {
	to = appendRPCHeader(to, r.RPCHeader)
	to = binary.AppendUvarint(to, r.Term)
	to = binary.AppendUvarint(to, r.PrevLogEntry)
	to = binary.AppendUvarint(to, r.PrevLogTerm)
	to = binary.AppendUvarint(to, r.LeaderCommitIndex)
	to = binary.AppendUvarint(to, uint64(len(r.Entries)))
	for _, l := range r.Entries {
		to = appendLog(to, l)
	}
	return to
}

func decodeAppendRequest(b []byte) (*raft.AppendEntriesRequest, error) {
	c := cursor{rest: b}
	r := &raft.AppendEntriesRequest{RPCHeader: c.rpcHeader(), Term: c.uint()}
	r.PrevLogEntry, r.PrevLogTerm, r.LeaderCommitIndex = c.uint(), c.uint(), c.uint()
	if n := c.count(minLog); n > 0 {
		logs := make([]raft.Log, n) // one allocation for all
		r.Entries = make([]*raft.Log, n)
		for i := range logs {
			c.log(&logs[i])
			r.Entries[i] = &logs[i]
		}
	}
	return r, c.end()
}

// minLog is the smallest size of an encoded entry, in bytes.
const minLog = 6

// logBound bounds the size of an encoded entry besides its data and extensions.
const logBound = 64

func appendLog(to []byte, l *raft.Log) []byte {
	to = binary.AppendUvarint(to, l.Index)
	to = binary.AppendUvarint(to, l.Term)
	to = append(to, byte(l.Type))
	to = appendTime(to, l.AppendedAt)
	to = appendBytes(to, l.Extensions)
	return appendBytes(to, l.Data)
}

func (c *cursor) log(l *raft.Log) {
	l.Index, l.Term, l.Type = c.uint(), c.uint(), raft.LogType(c.byte())
	l.AppendedAt, l.Extensions, l.Data = c.time(), c.bytes(), c.bytes()
}

func appendSize(r *raft.AppendEntriesRequest) int {
	n := 2*logBound + len(r.ID) + len(r.Addr)
	for _, l := range r.Entries {
		n += logSize(l)
	}
	return n
}

func logSize(l *raft.Log) int { return logBound + len(l.Data) + len(l.Extensions) }

func appendAppendResponse(to []byte, r *raft.AppendEntriesResponse) []byte {
	to = appendRPCHeader(to, r.RPCHeader)
	to = binary.AppendUvarint(to, r.Term)
	to = binary.AppendUvarint(to, r.LastLog)
	to = appendBool(to, r.Success)
	return appendBool(to, r.NoRetryBackoff)
}

func decodeAppendResponse(b []byte, r *raft.AppendEntriesResponse) error {
	c := cursor{rest: b}
	*r = raft.AppendEntriesResponse{
		RPCHeader: c.rpcHeader(), Term: c.uint(), LastLog: c.uint(), Success: c.bool(), NoRetryBackoff: c.bool(),
	}
	return c.end()
}

func appendVoteRequest(to []byte, r *raft.RequestVoteRequest) []byte {
	to = appendRPCHeader(to, r.RPCHeader)
	to = binary.AppendUvarint(to, r.Term)
	to = binary.AppendUvarint(to, r.LastLogIndex)
	to = binary.AppendUvarint(to, r.LastLogTerm)
	return appendBool(to, r.LeadershipTransfer)
}

func decodeVoteRequest(b []byte) (*raft.RequestVoteRequest, error) {
	c := cursor{rest: b}
	r := &raft.RequestVoteRequest{
		RPCHeader: c.rpcHeader(), Term: c.uint(),
		LastLogIndex: c.uint(), LastLogTerm: c.uint(), LeadershipTransfer: c.bool(),
	}
	return r, c.end()
}

func appendVoteResponse(to []byte, r *raft.RequestVoteResponse) []byte {
	to = appendRPCHeader(to, r.RPCHeader)
	to = binary.AppendUvarint(to, r.Term)
	to = appendBytes(to, r.Peers)
	return appendBool(to, r.Granted)
}

func decodeVoteResponse(b []byte, r *raft.RequestVoteResponse) error {
	c := cursor{rest: b}
	*r = raft.RequestVoteResponse{RPCHeader: c.rpcHeader(), Term: c.uint(), Peers: c.bytes(), Granted: c.bool()}
	return c.end()
}

func appendPreVoteRequest(to []byte, r *raft.RequestPreVoteRequest) []byte {
	to = appendRPCHeader(to, r.RPCHeader)
	to = binary.AppendUvarint(to, r.Term)
	to = binary.AppendUvarint(to, r.LastLogIndex)
	return binary.AppendUvarint(to, r.LastLogTerm)
}

func decodePreVoteRequest(b []byte) (*raft.RequestPreVoteRequest, error) {
	c := cursor{rest: b}
	r := &raft.RequestPreVoteRequest{
		RPCHeader: c.rpcHeader(), Term: c.uint(), LastLogIndex: c.uint(), LastLogTerm: c.uint(),
	}
	return r, c.end()
}

func appendPreVoteResponse(to []byte, r *raft.RequestPreVoteResponse) []byte {
	to = appendRPCHeader(to, r.RPCHeader)
	to = binary.AppendUvarint(to, r.Term)
	return appendBool(to, r.Granted)
}

func decodePreVoteResponse(b []byte, r *raft.RequestPreVoteResponse) error {
	c := cursor{rest: b}
	*r = raft.RequestPreVoteResponse{RPCHeader: c.rpcHeader(), Term: c.uint(), Granted: c.bool()}
	return c.end()
}

func decodeTimeoutRequest(b []byte) (*raft.TimeoutNowRequest, error) {
	c := cursor{rest: b}
	r := &raft.TimeoutNowRequest{RPCHeader: c.rpcHeader()}
	return r, c.end()
}

func decodeTimeoutResponse(b []byte, r *raft.TimeoutNowResponse) error {
	c := cursor{rest: b}
	*r = raft.TimeoutNowResponse{RPCHeader: c.rpcHeader()}
	return c.end()
}

func appendSnapshotRequest(to []byte, r *raft.InstallSnapshotRequest) []byte {
	to = appendRPCHeader(to, r.RPCHeader)
	to = binary.AppendUvarint(to, uint64(r.SnapshotVersion))
	to = binary.AppendUvarint(to, r.Term)
	to = binary.AppendUvarint(to, r.LastLogIndex)
	to = binary.AppendUvarint(to, r.LastLogTerm)
	to = appendBytes(to, r.Peers)
	to = appendBytes(to, r.Configuration)
	to = binary.AppendUvarint(to, r.ConfigurationIndex)
	return binary.AppendUvarint(to, uint64(r.Size))
}

func (c *cursor) snapshotRequest() *raft.InstallSnapshotRequest {
	return &raft.InstallSnapshotRequest{
		RPCHeader: c.rpcHeader(), SnapshotVersion: raft.SnapshotVersion(c.small()), Term: c.uint(),
		LastLogIndex: c.uint(), LastLogTerm: c.uint(), Peers: c.bytes(),
		Configuration: c.bytes(), ConfigurationIndex: c.uint(), Size: int64(c.small()),
	}
}

func appendSnapshotResponse(to []byte, r *raft.InstallSnapshotResponse) []byte {
	to = appendRPCHeader(to, r.RPCHeader)
	to = binary.AppendUvarint(to, r.Term)
	return appendBool(to, r.Success)
}

func decodeSnapshotResponse(b []byte, r *raft.InstallSnapshotResponse) error {
	c := cursor{rest: b}
	*r = raft.InstallSnapshotResponse{RPCHeader: c.rpcHeader(), Term: c.uint(), Success: c.bool()}
	return c.end()
}
