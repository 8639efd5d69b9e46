package state

import (
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

const (
	// DefaultMemTableBytes is the largest size of a memtable in bytes. A full memtable goes to disk. Most
	// records of a job (its states, ready key and timer) are overwritten within seconds, and a record that is
	// overwritten in memory is not written to disk, unless a snapshot still reads it. Pebble starts at 256
	// KiB and grows to this size only under load.
	DefaultMemTableBytes = 32 << 20

	// recentShare is the ratio of a memtable to a page of recent job records, or of recent payloads. With the
	// default memtable, a page has room for twice the job records of 128 workers with about a hundred jobs
	// each. A page of payloads keeps payloads of a few hundred bytes until the view has read them.
	recentShare = 8

	memTables     = 4       // of a store, including the one being written; more commits wait for the disk (see flushlag.Lag)
	ownCacheBytes = 8 << 20 // block cache of a store without Shared, in addition to its memtables
	sharedFiles   = 1000    // sstables kept open by all stores of a Shared
)

// Shared holds the block cache and the open files that all stores of a host share.
type Shared struct {
	cache *pebble.Cache
	files *pebble.FileCache
}

// NewShared creates caches of the given size in bytes for any number of stores. The stores' memtables count
// towards the size, so a cache that is smaller than the memtables holds no blocks.
func NewShared(cacheBytes int64) *Shared {
	return &Shared{cache: pebble.NewCache(cacheBytes), files: pebble.NewFileCache(1, sharedFiles)}
}

// Close releases the shared caches. The stores must be closed before.
func (s *Shared) Close() {
	s.files.Unref()
	s.cache.Unref()
}

// pebbleOptions returns the options of every store of the package.
//
// Pebble's own log is off, because the Raft log is the write-ahead log. A crash loses the unflushed writes,
// but only a suffix of them: an entry is one batch, a batch lies in one memtable, and memtables are flushed
// in order, each by one atomic edit of the manifest. So after a crash the store is in the state that some
// applied entry left, and its Head names that entry. The Raft log, which is cut only after a flush, has the
// later entries.
func (s *Store) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          s.fs,
		Cache:                       s.options.Shared.cache,
		FileCache:                   s.options.Shared.files,
		FormatMajorVersion:          pebble.FormatNewest,
		DisableWAL:                  !s.options.wal,
		MemTableSize:                uint64(s.options.MemTableBytes),
		MemTableStopWritesThreshold: math.MaxInt32, // see flushlag.Lag
		L0CompactionThreshold:       8,             // by measurement: 4 costs 10 % more CPU per job, and 2 costs 20 % more
		L0StopWritesThreshold:       64,
		MaxManifestFileSize:         1 << 20, // an image copies the manifest
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      &logger{fail: s.failure.set},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { s.failure.set(fmt.Errorf("store on disk: %w", err)) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				// The message leaves out info itself, because it prints stacks and keys, and the keys belong
				// to the tenant.
				s.failure.set(fmt.Errorf("store on disk is corrupt: %s: %w: rebuild this replica from the other members or a backup", info.Path, info.Details))
			},
		},
	}
	// Each file cache shard keeps a goroutine, and an idle store should have few.
	o.Experimental.FileCacheShards = 1
	for i := range o.Levels {
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].IndexBlockSize = 256 << 10 // one index level for all but the largest tables
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// logger receives Pebble's messages. It drops the informational ones, which are about files and levels.
type logger struct {
	fail func(error) error
}

func (*logger) Infof(string, ...any) {}

// Errorf ignores the message, because failures of the store arrive through the event listener or as errors of
// calls.
func (*logger) Errorf(string, ...any) {}

// Fatalf makes the store fail. Pebble calls it when it cannot go on, for example because it cannot write its
// manifest, and expects the process to end. The store then refuses every commit and flush, so that nothing
// relies on this disk, and one tenant's disk error does not stop the other tenants of the process.
func (l *logger) Fatalf(format string, args ...any) {
	err := &fatalError{text: fmt.Sprintf(format, args...)}
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err.cause = cause
		}
	}
	l.fail(fmt.Errorf("store on disk: %w", err))
}

// fatalError is a fatal message of Pebble with the error that it printed.
type fatalError struct {
	text  string
	cause error
}

func (e *fatalError) Error() string { return e.text }
func (e *fatalError) Unwrap() error { return e.cause }
