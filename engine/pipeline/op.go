package pipeline

import "github.com/corvo/corvo/engine/entry"

// Class orders proposals within an entry. If more proposals wait than one entry holds, those of a lower class
// go first.
type Class uint8

// Ops that free resources come before ops that take them.
const (
	ClassSettle  Class = iota // ack, fail, heartbeat, and the cell's own duties
	ClassEnqueue              // new jobs, also those from another shard
	ClassFetch                // leases
	ClassManage               // settings, keys, and people's actions on jobs
	classes
)

// Op is one change of the state, as the pipeline sees it. An Op must not be modified after it was proposed.
type Op interface {
	Number() entry.Number
	Class() Class
	// Validate refuses an op that no state could accept. It looks only at the op.
	Validate() error
	// SizeVT and MarshalToSizedBufferVT belong to the generated codec. The pipeline marshals the op with them
	// directly into the buffer of the entry.
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// OrderedOp is an op that decides when it enters the backlog, so that a caller who proposes several ops from
// several goroutines can admit them one after the other. AdmitInOrder calls admit at most once and returns
// its error, or the reason for not calling it. The Pipeline calls AdmitInOrder on the proposer's goroutine,
// at each attempt to propose the op. A node that forwards the op to another member does not call it.
type OrderedOp interface {
	AdmitInOrder(admit func() error) error
}
