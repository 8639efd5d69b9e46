// Package image says what a snapshot is made of: parts, which are files that
// never change, each known by its name, its size and the hash of its bytes. A
// replica that holds a part already need not be sent it again. It knows neither
// raft nor what the parts hold, and imports nothing of ours.
package image

import (
	"crypto/sha256"
	"io"
)

// Part is one file of a snapshot.
type Part struct {
	Name string
	Size int64
	Sum  [sha256.Size]byte // SHA-256 of its bytes
}

// Source is a complete snapshot to be read, as often as needed.
type Source interface {
	// Parts lists the snapshot's parts in the order of their names.
	Parts() []Part
	// Open reads one of the parts.
	Open(name string) (io.ReadCloser, error)
}

// Located is a Source that has parts as files on this disk, so that they can be
// linked instead of copied.
type Located interface {
	Source
	// Path is the file of a part: it has exactly the part's bytes, and nobody writes
	// to it, ever. "" = the part is not such a file.
	Path(name string) string
}

// Staging is where the parts of a snapshot gather on their way in. What it was
// given survives a broken transfer, so that no part is sent twice. It is used by
// one transfer at a time.
type Staging interface {
	// Missing are those of the parts that have not been stored yet, in their order.
	Missing(parts []Part) ([]Part, error)
	// Store takes the bytes of a part, which must be exactly as many as it says and
	// have its hash; otherwise nothing is kept and an error says so.
	Store(p Part, bytes io.Reader) error
}
