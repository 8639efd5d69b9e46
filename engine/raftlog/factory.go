// Package raftlog opens the stores a Raft group keeps its log, term and vote in.
// It owns their files, the traps of each library behind them, and the suite they
// all must pass. It does not know what an entry holds. It may import
// hashicorp/raft, the log libraries and api.
package raftlog

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
)

// Store is a group's log, with its term and vote. All kinds keep the same
// promises:
//
//   - A method that has returned nil has made its change durable (but see
//     Factory.NoSync). After a failed write every other write fails: what reached
//     the disk is unknown until the log is opened again, and then it is everything
//     acknowledged and perhaps some of what was not.
//   - The log has no gaps. StoreLogs takes any index when it is empty, and then
//     only the one that follows; all else is refused with nothing written. Raft
//     deletes what it has before it goes on behind a snapshot (IsMonotonic).
//   - DeleteRange takes a prefix or a suffix, as far as there is one; a range in
//     the middle is refused, one outside is nothing to do. What was deleted is
//     never served again.
//   - An entry comes back as it was stored, or not at all: one that was damaged is
//     an error, when it is read or when the log is opened, and so is a log that
//     ends before what it has acknowledged. A write torn by a crash is dropped.
//   - Get of a value that was never set is empty, or the error "not found", which
//     raft knows by its text.
//   - Reads may go on during writes; Close ends both.
type Store interface {
	raft.LogStore
	raft.MonotonicLogStore
	raft.StableStore
	io.Closer
	// Size is the bytes the store takes on disk, preallocated ones included. It is
	// cheap enough to be asked every second.
	Size() (int64, error)
}

// Kind names a log store. DESIGN.md compares them.
type Kind string

// The kinds. A directory keeps the kind it was first opened with.
const (
	// WAL keeps the log in segment files, append only; it is the default.
	WAL Kind = "wal"
	// Pebble keeps it in an LSM tree with a log of its own.
	Pebble Kind = "pebble"
	// Bolt keeps it in one file, a B+tree, that never shrinks.
	Bolt Kind = "bolt"
	// Badger keeps it in an LSM tree of mapped files.
	Badger Kind = "badger"
)

// kinds is every store that can be opened. What opens one leaves the home to its
// caller when it fails.
var kinds = map[Kind]func(*Factory, *home) (Store, error){
	WAL:    openWAL,
	Pebble: openPebble,
	Bolt:   openBolt,
	Badger: openBadger,
}

// DefaultSegmentBytes is the size of a log segment, which is preallocated. A
// quarter of the library's own default: a bare node then takes 16 MiB when idle
// instead of 64, a cut frees space in steps of 16 MiB, and opening reads at most
// that much of the tail; a rotation (a new file and a metadata commit, about
// 1 ms) still comes only every 16 MiB. Hosts with many groups choose smaller
// ones.
const DefaultSegmentBytes = 16 << 20

// Bounds of Factory.SegmentBytes. An entry larger than a segment is kept whole.
const (
	MinSegmentBytes = 64 << 10
	MaxSegmentBytes = 1 << 30
)

// Factory opens the log stores of one process, so that what they share has one
// place.
type Factory struct {
	// SegmentBytes is the size of a segment file; 0 = DefaultSegmentBytes.
	SegmentBytes int
	// NoSync leaves it to the operating system when what was written reaches the
	// disk. A crash of the process loses nothing then, a crash of the machine the
	// newest writes. It may also leave older ones half written: what is read is
	// still what was stored, but the log may be refused as damaged.
	NoSync bool
	// Logger gets what the log libraries say; nil = hclog.Default().
	Logger hclog.Logger
	// Wrap goes around every store that is opened; tests put faults there. nil =
	// nothing does.
	Wrap func(Store) Store

	disk  vfs.FS  // what Pebble is on; nil = the operating system's
	files walDisk // what raft-wal's segments are on; nil = the operating system's
}

// Open opens or creates the store of a kind ("" = WAL) in dir, which is made if
// it does not exist. A dir that somebody has open is refused with api.Conflict, and
// so is one that holds a log of another kind.
func (f *Factory) Open(dir string, kind Kind) (Store, error) {
	if kind == "" {
		kind = WAL
	}
	open, ok := kinds[kind]
	if !ok {
		return nil, api.Errorf(api.Unsupported, "there is no log store %q; choose one of: %s", kind, strings.Join(Kinds(), ", "))
	}
	if n := f.SegmentBytes; n != 0 && (n < MinSegmentBytes || n > MaxSegmentBytes) {
		return nil, api.Errorf(api.ValidationError, "log segments of %d bytes: choose from %d to %d", n, MinSegmentBytes, MaxSegmentBytes)
	}
	h, err := openHome(dir, kind, f.NoSync)
	if err != nil {
		return nil, err
	}
	s, err := open(f, h)
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	if f.Wrap != nil {
		s = f.Wrap(s)
	}
	return s, nil
}

// keyed is a log on an open shelf, which is closed again where the log in it is
// not whole.
func keyed(h *home, s shelf) (Store, error) {
	k, err := newKeyedStore(h, s)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the log in %s: %w", h.dir, err), s.close())
	}
	return k, nil
}

// Kinds lists the kinds that Open knows, sorted.
func Kinds() []string {
	var names []string
	for k := range kinds {
		names = append(names, string(k))
	}
	slices.Sort(names)
	return names
}

func (f *Factory) segmentBytes() int {
	if f.SegmentBytes == 0 {
		return DefaultSegmentBytes
	}
	return f.SegmentBytes
}

func (f *Factory) logger() hclog.Logger {
	if f.Logger == nil {
		return hclog.Default()
	}
	return f.Logger
}
