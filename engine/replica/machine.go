package replica

import (
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
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
	// to hold, whose parts are sent to a replica that needs them. It may be called
	// beside Apply.
	Image() (Image, error)

	// Restore replaces the whole content by the parts of an Image and makes it
	// durable before it returns. It is wholly done or, after an error and after a
	// crash, not at all. A source may say where it stands (Claim): what claims one
	// position and holds another is refused.
	Restore(from image.Source) error
}

// Image is a consistent copy of a Machine: files that do not change while it is
// open. Close removes them.
type Image interface {
	image.Source
	Applied() entry.Applied
	Configuration() (configuration []byte, index uint64)
	Close() error
}

// Claim is a source of parts that says what it is a copy of.
type Claim interface{ Applied() entry.Applied }

// Holder is a Machine that may hold parts of a snapshot already, from the last
// one it took over: a second one that follows soon differs from it in a few
// files.
type Holder interface {
	// Held is the path of a file that nobody writes to and that may be the part;
	// "" = none. It may be gone a moment later. Whether its bytes are the part's is
	// for the caller to see.
	Held(p image.Part) string
}
