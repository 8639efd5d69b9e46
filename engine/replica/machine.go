package replica

import (
	"io"

	"github.com/corvo/corvo/engine/entry"
)

// Machine is all the engine knows of a state machine. Apply, Configure, Flush
// and Restore are called by one goroutine at a time; Applied, Configuration and
// Image may be called beside them.
type Machine interface {
	// Applied is the last entry in the machine, zero for an empty one.
	Applied() entry.Applied

	// LastClock is the clock of the last entry in Unix nanoseconds, 0 for none.
	LastClock() int64

	// Apply changes the machine by one entry, wholly or not at all, and returns
	// one result for each op by position: a value, or an error where the op was
	// refused. An error of Apply itself means that the machine cannot be trusted
	// any longer: the replica stops.
	Apply(at entry.Applied, e entry.Entry) ([]any, error)

	// Configure records a membership change (raft's encoding) with its position.
	Configure(at entry.Applied, configuration []byte) error

	// Configuration is the last recorded membership and its index; nil for none.
	Configuration() (configuration []byte, index uint64)

	// Flush makes everything applied so far durable. It may be called beside
	// Apply; what is applied meanwhile may or may not be included.
	Flush() error

	// Image takes a consistent copy of the machine as of some applied entry, cheap
	// to hold, to be streamed to a replica that needs it. It may be called beside
	// Apply.
	Image() (Image, error)

	// Restore replaces the whole content by a stream that Image.WriteTo made and makes
	// it durable before it returns.
	Restore(r io.Reader) error
}

// Image is a consistent copy of a Machine. WriteTo streams it with lengths and
// checksums of its own; it may be called more than once.
type Image interface {
	io.WriterTo
	Applied() entry.Applied
	Configuration() (configuration []byte, index uint64)
	Close() error
}
