// Package raftlog opens the stores a Raft group keeps its log, term and vote in.
// It owns their files, the traps of each library behind them, and the suite they
// all must pass. It does not know what an entry holds. It may import
// hashicorp/raft, the log libraries and api.
package raftlog

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/durable"
)

// Store is a group's log, with its term and vote. A method that has returned nil
// has made its change durable. After a failed write the Store must not be
// written again: what reached the disk is unknown.
type Store interface {
	raft.LogStore
	raft.StableStore
	io.Closer
	// Size is the bytes the store takes on disk, preallocated ones included.
	Size() (int64, error)
}

// Kind names a log store.
type Kind string

// WAL keeps the log in segment files, append only; it is the default.
const WAL Kind = "wal"

// kinds is every store that can be opened.
var kinds = map[Kind]func(*Factory, string) (Store, error){
	WAL: openWAL,
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
	// Logger gets what the log libraries say; nil = hclog.Default().
	Logger hclog.Logger
}

// Open opens or creates the store of a kind ("" = WAL) in dir, which is made if
// it does not exist. It refuses a dir that another process has open.
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
	if err := durable.MakeDir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the log directory: %w", err)
	}
	return open(f, dir)
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
