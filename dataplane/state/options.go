package state

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

const (
	// DefaultMemTableBytes is what one store may hold in memory before it writes
	// to disk. Most of what a job causes (its states, ready key and timer) is
	// undone within seconds, and what is undone in memory is never written.
	// Pebble starts at 256 KiB and grows to this only under load.
	DefaultMemTableBytes = 32 << 20

	// recentShare is how much smaller than a memtable a page of the jobs' records is, or
	// of their payloads, that are kept in memory: the records of the jobs that 128 workers
	// have, each a hundred or so, fit twice, and payloads of a few hundred bytes until the
	// view has them.
	recentShare = 8

	memTables     = 4       // of a store, the one being written included: more writes wait for the disk
	ownCacheBytes = 8 << 20 // block cache of a store without Shared, besides its memtables
	sharedFiles   = 1000    // sstables held open by all stores of a Shared
)

// Shared wraps what all stores of a host share: the block cache and the open
// files.
type Shared struct {
	cache *pebble.Cache
	files *pebble.FileCache
}

// NewShared makes caches of the given size for any number of stores. The stores'
// memtables count towards the size: a cache smaller than they are caches nothing.
func NewShared(cacheBytes int64) *Shared {
	return &Shared{cache: pebble.NewCache(cacheBytes), files: pebble.NewFileCache(1, sharedFiles)}
}

// Close gives the shared caches back; the stores must be closed before.
func (s *Shared) Close() {
	s.files.Unref()
	s.cache.Unref()
}

// pebbleOptions are the options every store of the package is opened with.
//
// Pebble's own log is off: the Raft log is the write-ahead log. A crash loses
// what was not flushed, but only a suffix of it: an entry is one batch, a batch
// lies in one memtable, and memtables are flushed in order, each by one atomic
// edit of the manifest. So the store always is as some applied entry left it,
// its Head says which, and the log, which is cut only after a flush, has the
// rest.
func (s *Store) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          s.fs,
		Cache:                       s.options.Shared.cache,
		FileCache:                   s.options.Shared.files,
		FormatMajorVersion:          pebble.FormatNewest,
		DisableWAL:                  !s.options.wal,
		MemTableSize:                uint64(s.options.MemTableBytes),
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       8, // by measurement: 4 costs 10 % more CPU per job, 2 20 %
		L0StopWritesThreshold:       64,
		MaxManifestFileSize:         1 << 20, // an image copies the manifest
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      &logger{fail: s.failure.set},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { s.failure.set(fmt.Errorf("store on disk: %w", err)) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				// Not info itself: it prints keys, which are the tenant's, and stacks.
				s.failure.set(fmt.Errorf("store on disk is corrupt: %s: %w: rebuild this replica from the other members or a backup", info.Path, info.Details))
			},
		},
	}
	// A file cache shard keeps a goroutine; an idle store should have few.
	o.Experimental.FileCacheShards = 1
	for i := range o.Levels {
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].IndexBlockSize = 256 << 10 // one level of index for all but the largest tables
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// logger gives Pebble's messages to those who act on them. Its informational
// ones are about files and levels and are nobody's business.
type logger struct {
	fail func(error) error
}

func (*logger) Infof(string, ...any) {}

// Errorf is not a failure of the store: those come through the event listener
// or as errors of calls.
func (*logger) Errorf(string, ...any) {}

// Fatalf is called where Pebble cannot write its manifest, and then expects the
// process to end. We end only the store: from here on it refuses every commit
// and flush, so that nothing relies on what this disk says afterwards, and one
// tenant's disk error does not take the other tenants of the process down.
func (l *logger) Fatalf(format string, args ...any) {
	err := &fatalError{text: fmt.Sprintf(format, args...)}
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err.cause = cause
		}
	}
	l.fail(fmt.Errorf("store on disk: %w", err))
}

// fatalError is one of Pebble's last words with the error it printed into them.
type fatalError struct {
	text  string
	cause error
}

func (e *fatalError) Error() string { return e.text }
func (e *fatalError) Unwrap() error { return e.cause }
