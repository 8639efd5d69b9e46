package replica

import (
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// Machine is the interface of a state machine to the engine. One goroutine at a time calls Apply, Configure
// and Restore. All other methods may be called at the same time.
type Machine interface {
	// Applied returns the last applied entry; it is zero in an empty machine.
	Applied() entry.Applied

	// LastClock returns the clock of the last applied entry in Unix nanoseconds, or 0 if there is none.
	LastClock() int64

	// Apply applies one entry, completely or not at all, and returns the results of the ops in their order:
	// each is a value, or an error if the op was refused. An error of Apply itself means that the machine can
	// no longer be trusted; the replica stops.
	Apply(at entry.Applied, e entry.Entry) ([]any, error)

	// Configure records a membership change (in raft's encoding) and its position.
	Configure(at entry.Applied, configuration []byte) error

	// Configuration returns the last recorded configuration and its index, or nil if there is none.
	Configuration() (configuration []byte, index uint64)

	// Flush makes all applied entries durable. It may run concurrently with Apply and Restore; an entry
	// applied in the meantime may or may not be included.
	Flush() error

	// Image takes a consistent copy of the machine at some applied entry. The copy must be cheap to hold; its
	// parts are sent to a replica that needs them. Image may be called concurrently with Apply.
	Image() (Image, error)

	// Restore replaces the whole content by the parts of an Image and makes it durable before it returns. A
	// crash leaves the old content or the complete new one. After an error the content is the old one, or the
	// machine refuses further calls. Restore refuses a Positioned source whose position differs from its
	// content's.
	Restore(from image.Source) error
}

// Image is a consistent copy of a Machine: files that do not change while it is open. Close removes them.
type Image interface {
	image.Source
	Applied() entry.Applied
	Configuration() (configuration []byte, index uint64)
	Close() error
}

// Positioned is a source of parts that states the position of its content.
type Positioned interface{ Applied() entry.Applied }

// Holder is a Machine that may already hold parts of a snapshot, from the last one it installed. A snapshot
// that follows soon differs from it in a few files.
type Holder interface {
	// Held returns the path of a file that nobody writes to and that may be the part, or "" if there is none.
	// The file may be removed a moment later. The caller checks whether its bytes are the part's.
	Held(p image.Part) string
}
