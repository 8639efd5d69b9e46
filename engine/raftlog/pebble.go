package raftlog

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/go-hclog"

	"github.com/corvo/corvo/engine/raftlog/flushlag"
)

// pebbleBackend keeps a log in Pebble. An append is one batch, synced to Pebble's own log. Entries come in
// order, so tables do not overlap and move down the tree without being merged. A prefix is deleted by one
// range tombstone; once that is flushed, the tables it covers are dropped as a whole.
type pebbleBackend struct {
	db  *pebble.DB
	dir string // the log's; its disk must keep pebbleReserve free
	lag flushlag.Lag

	mu     sync.Mutex
	failed error         // an error that Pebble reported only to its logger or listener
	broken chan struct{} // closed when failed is set
}

// These constants bound one Pebble log. The memtable is small because a node may hold many logs, and because
// deleted entries take space until the memtable with their tombstone is flushed. The cache is small because
// raft reads a log front to back.
const (
	pebbleMemTable = 4 << 20
	// pebbleMemTables is the number of memtables, including the one being written. More appends wait for the disk.
	pebbleMemTables = 4
	pebbleCache     = 1 << 20
	pebbleFiles     = 100
	// pebbleReserve is left free on the disk. If Pebble cannot start its next log file, it ends the process
	// with all its other groups.
	pebbleReserve = pebbleMemTables * pebbleMemTable
)

func openPebble(f *Factory, h *logDir) (Store, error) {
	p := &pebbleBackend{dir: h.dir, broken: make(chan struct{})}
	cache := pebble.NewCache(pebbleCache)
	defer cache.Unref() // the DB has its own reference
	dir, disk := filepath.Join(h.dir, "pebble"), f.disk
	if disk == nil {
		disk = vfs.Default
	}
	if f.NoSync {
		disk = unsyncedLogs{disk}
	}
	var err error
	if p.db, err = pebble.Open(dir, p.options(cache, disk, f.logger())); err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", h.dir, err)
	}
	return keyed(h, p)
}

func (p *pebbleBackend) options(cache *pebble.Cache, disk vfs.FS, logger hclog.Logger) *pebble.Options {
	o := &pebble.Options{
		FS:                          disk,
		Cache:                       cache,
		MaxOpenFiles:                pebbleFiles,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                pebbleMemTable,
		MemTableStopWritesThreshold: math.MaxInt32, // see flushlag.Lag
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		Logger:                      pebbleLogger{logger, p.fail},
		EventListener: &pebble.EventListener{
			BackgroundError: p.fail,
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				p.fail(fmt.Errorf("%s: %w", info, errDamaged))
			},
		},
	}
	p.lag.Listen(o.EventListener)
	o.Experimental.FileCacheShards = 1 // each shard keeps a goroutine
	return o
}

func (p *pebbleBackend) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
		close(p.broken)
	}
}

func (p *pebbleBackend) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// write also returns errors that Pebble only logs: Pebble expects a failed commit to end the process, and
// returns nil if its logger does not end it.
func (p *pebbleBackend) write(b *batch) (err error) {
	if err := errors.Join(p.failure(), checkSpace(p.dir, pebbleReserve)); err != nil {
		return err
	}
	w := p.db.NewBatch()
	defer func() { err = errors.Join(err, w.Close()) }()
	if b.from != 0 {
		if err := w.DeleteRange(entryKey(b.from), nextKey(entryKey(b.to)), nil); err != nil {
			return err
		}
	}
	for _, put := range b.puts {
		if err := w.Set(put.key, put.value, nil); err != nil {
			return err
		}
	}
	size := uint64(w.Len())
	p.lag.Await((pebbleMemTables-1)*pebbleMemTable, p.broken)
	if err := p.failure(); err != nil { // nothing limits the memtables of a store that cannot flush
		return err
	}
	if err := w.Commit(pebble.Sync); err != nil {
		return err
	}
	p.lag.Add(size)
	return p.failure()
}

// nextKey returns the smallest key above key.
func nextKey(key []byte) []byte { return append(slices.Clip(key), 0) }

func (p *pebbleBackend) get(key []byte) ([]byte, error) {
	value, closer, err := p.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, value...), closer.Close()
}

func (p *pebbleBackend) entries(visit func(uint64, []byte) error) (err error) {
	it, err := p.db.NewIter(&pebble.IterOptions{LowerBound: []byte{entryPrefix}, UpperBound: []byte{entryPrefix + 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		record, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if len(it.Key()) != entryKeyBytes {
			return fmt.Errorf("a key of %d bytes among the entries: %w", len(it.Key()), errDamaged)
		}
		if err := visit(entryIndex(it.Key()), record); err != nil {
			return err
		}
	}
	return it.Error()
}

// reclaim starts the flush of a deletion's tombstone. While the tombstone is in memory no table can be
// dropped, and a log that is truncated and then idle would keep its size.
func (p *pebbleBackend) reclaim() error {
	_, err := p.db.AsyncFlush()
	return err
}

func (p *pebbleBackend) close() error { return p.db.Close() }

// pebbleLogger makes a fatal message of Pebble end the log and not the process.
type pebbleLogger struct {
	hclog.Logger
	fail func(error)
}

func (l pebbleLogger) Infof(format string, args ...any)  { l.Debug(fmt.Sprintf(format, args...)) }
func (l pebbleLogger) Errorf(format string, args ...any) { l.Warn(fmt.Sprintf(format, args...)) }
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = fmt.Errorf("%s: %w", err, cause)
		}
	}
	l.Error(err.Error())
	l.fail(err)
}

// unsyncedLogs is a disk that leaves the syncs of Pebble's own log to the operating system. Pebble's own
// option not to sync keeps a write in the process's memory for a while, where a kill loses it.
type unsyncedLogs struct{ vfs.FS }

func (u unsyncedLogs) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.Create(name, category)
	return unsyncedLog(name, f), err
}

func (u unsyncedLogs) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.ReuseForWrite(old, name, category)
	return unsyncedLog(name, f), err
}

func unsyncedLog(name string, f vfs.File) vfs.File {
	if f == nil || filepath.Ext(name) != ".log" {
		return f
	}
	return writtenFile{f}
}

type writtenFile struct{ vfs.File }

func (writtenFile) Sync() error                { return nil }
func (writtenFile) SyncData() error            { return nil }
func (writtenFile) SyncTo(int64) (bool, error) { return false, nil }
