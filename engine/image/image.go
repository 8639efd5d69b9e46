// Package image describes the content of a snapshot: a list of parts. A part is an immutable file, identified
// by its name, its size and the hash of its bytes. A replica that already holds a part need not receive it
// again. The package knows neither raft nor the content of the parts, and imports no other package of this
// module.
package image

import (
	"crypto/sha256"
	"io"
)

// Part is one file of a snapshot.
type Part struct {
	Name string
	Size int64
	Sum  [sha256.Size]byte // SHA-256 of the bytes
}

// Source is a complete snapshot that can be read any number of times.
type Source interface {
	// Parts returns the snapshot's parts, sorted by name.
	Parts() []Part
	// Open opens one part for reading.
	Open(name string) (io.ReadCloser, error)
}

// Located is a Source whose parts may be files on the local disk, so that a reader can link them instead of
// copying them.
type Located interface {
	Source
	// Path returns the file of a part, or "" if no local file holds it. The file has exactly the part's bytes
	// and nobody ever writes to it.
	Path(name string) string
}

// Staging stores the parts of a snapshot while it is received. Stored parts survive a broken transfer, so
// that none is sent twice. Only one transfer may use a Staging at a time.
type Staging interface {
	// Missing returns the parts that are not stored yet, in the order given. Of parts with the same bytes, it
	// returns only the first.
	Missing(parts []Part) ([]Part, error)
	// Store reads and stores the bytes of a part. If their size or hash differs from the part's, Store keeps
	// nothing and returns an error.
	Store(p Part, bytes io.Reader) error
}
