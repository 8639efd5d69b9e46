// Package raftlog opens the stores in which a Raft group keeps its log, term and vote. It owns their files,
// the workarounds for each library's defects, and the test suite that all stores must pass. It does not know
// the content of entries. It may import hashicorp/raft, the log libraries, api and durable.
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

// Store is a group's log, with its term and vote. All kinds keep the same contract:
//
//   - A method that returns nil has made its change durable (but see Factory.NoSync). After a failed write every later
//     write fails, because the content of the disk is unknown until the log is opened again. An opened log
//     holds every acknowledged change and perhaps some unacknowledged ones.
//   - The log has no gaps. An empty log accepts any index; after that StoreLogs accepts only the next one, and refuses
//     all others with nothing written. Raft deletes its log before it continues after a snapshot (IsMonotonic).
//   - DeleteRange deletes a prefix or a suffix. It ignores indexes outside of the log and refuses a range in the middle.
//     Deleted entries are never returned again.
//   - An entry is returned as it was stored, or not at all. A damaged entry is an error when it is read or when the log
//     is opened, and so is a log that ends before its last acknowledged entry. A write torn by a crash is dropped.
//   - Get of a value that was never set returns an empty value, or the error "not found", which raft recognises by its
//     text.
//   - Reads may run concurrently with writes. Close ends both.
type Store interface {
	raft.LogStore
	raft.MonotonicLogStore
	raft.StableStore
	io.Closer
	// Size returns the bytes that the store takes on disk, preallocated ones included. It is cheap enough to
	// be called every second.
	Size() (int64, error)
}

// Kind names a log store. DESIGN.md compares them.
type Kind string

// These are the kinds of log stores. A directory keeps the kind of its first opening.
const (
	// WAL keeps the log in append-only segment files. It is the default.
	WAL Kind = "wal"
	// Pebble keeps the log in an LSM tree with a write-ahead log of its own.
	Pebble Kind = "pebble"
	// Bolt keeps the log in one file, a B+tree, that never shrinks.
	Bolt Kind = "bolt"
	// Badger keeps the log in an LSM tree of mapped files.
	Badger Kind = "badger"
)

// kinds lists the functions that open each store. If one fails, its caller closes the logDir.
var kinds = map[Kind]func(*Factory, *logDir) (Store, error){
	WAL:    openWAL,
	Pebble: openPebble,
	Bolt:   openBolt,
	Badger: openBadger,
}

// DefaultSegmentBytes is the size of a log segment, which is preallocated. It is a quarter of the library's
// default. So an idle node takes 16 MiB instead of 64, a truncation frees space in steps of 16 MiB, and
// opening reads at most that much of the tail. A rotation (a new file and a metadata commit, about 1 ms)
// still comes only every 16 MiB. Hosts with many groups choose a smaller size.
const DefaultSegmentBytes = 16 << 20

// These constants bound Factory.SegmentBytes. An entry larger than a segment is still stored as a whole.
const (
	MinSegmentBytes = 64 << 10
	MaxSegmentBytes = 1 << 30
)

// Factory opens the log stores of one process and holds their common settings.
type Factory struct {
	// SegmentBytes is the size of a segment file of the WAL kind; 0 = DefaultSegmentBytes.
	SegmentBytes int
	// NoSync leaves the syncs to the operating system. A crash of the process then loses nothing; a crash of
	// the machine loses the newest writes. It may also leave older writes half written. Every entry that is
	// read is still as it was stored, but the log may be refused as damaged.
	NoSync bool
	// Logger receives the log lines of the libraries; nil = hclog.Default().
	Logger hclog.Logger
	// Wrap wraps every store that is opened, so that tests can inject faults; nil wraps none.
	Wrap func(Store) Store

	disk  vfs.FS  // file system for Pebble; nil = the operating system's
	files walDisk // file system for raft-wal's segments; nil = the operating system's
}

// Open opens or creates the store of a kind ("" = WAL) in dir, and creates dir if it does not exist. It
// returns CONFLICT if dir is open in a process, holds a log of another kind, or holds other files and no log.
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
	h, err := openLogDir(dir, kind, f.NoSync)
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

// keyed returns a log on an open backend. It closes the backend if the log is damaged.
func keyed(h *logDir, s backend) (Store, error) {
	k, err := newKeyedStore(h, s)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the log in %s: %w", h.dir, err), s.close())
	}
	return k, nil
}

// Kinds returns the names of all kinds, sorted.
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
