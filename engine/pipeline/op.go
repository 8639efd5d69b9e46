package pipeline

import "github.com/corvo/corvo/engine/entry"

// Class orders proposals when more wait than one entry holds: lower goes first.
type Class uint8

// Work that frees resources goes before work that takes them.
const (
	ClassSettle  Class = iota // ack, fail, heartbeat, and the cell's own duties
	ClassEnqueue              // new jobs
	ClassFetch                // leases
	ClassManage               // settings, keys, bulk
	classes
)

// Op is one change as the pipeline sees it. An Op must not be changed after it
// was proposed.
type Op interface {
	Number() entry.Number
	Class() Class
	// Validate refuses an op that no state could accept. It looks only at the op.
	Validate() error
	// SizeVT and MarshalToSizedBufferVT are the generated codec's: the op is
	// written once, straight into the entry.
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// Boarder is an op that says itself when it is let into the backlog: for those who have
// several go in one after the other. Board calls admit at most once, and answers what
// that did, or why it has not called it; it is asked on the proposer's goroutine, and
// not at all of an op that goes to another member.
type Boarder interface {
	Board(admit func() error) error
}
