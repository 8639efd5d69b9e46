package raftlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/go-hclog"
)

// pebbleShelf keeps a log in Pebble. An append is one batch, synced to Pebble's
// own log. Entries come in order, so tables do not overlap and move down the tree
// without being merged. A prefix goes by one range tombstone; once that is flushed
// the tables it covers are dropped whole.
type pebbleShelf struct {
	db  *pebble.DB
	dir string // a directory on the disk that it is on

	mu     sync.Mutex
	failed error // what Pebble says went wrong behind a call that answered nil
}

// Limits of one Pebble log. The memtable is small because a node may hold many
// logs, and because what was cut takes space until the memtable with its tombstone
// is flushed; the cache because raft reads a log front to back.
const (
	pebbleMemTable = 4 << 20
	pebbleCache    = 1 << 20
	pebbleFiles    = 100
	// pebbleReserve is left free on the disk. Where Pebble cannot begin its next
	// log file it ends the process, with all other groups in it.
	pebbleReserve = 4 * pebbleMemTable
)

func openPebble(f *Factory, h *home) (Store, error) {
	p := &pebbleShelf{dir: h.dir}
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

func (p *pebbleShelf) options(cache *pebble.Cache, disk vfs.FS, logger hclog.Logger) *pebble.Options {
	o := &pebble.Options{
		FS:                          disk,
		Cache:                       cache,
		MaxOpenFiles:                pebbleFiles,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                pebbleMemTable,
		MemTableStopWritesThreshold: 4,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		Logger:                      pebbleLogger{logger, p.fail},
		EventListener: &pebble.EventListener{
			BackgroundError: p.fail,
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				p.fail(fmt.Errorf("%s: %w", info, errDamaged))
			},
		},
	}
	o.Experimental.FileCacheShards = 1 // each keeps a goroutine
	return o
}

func (p *pebbleShelf) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
	}
}

func (p *pebbleShelf) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// write answers what Pebble could only log, too: it takes a commit that failed
// for the end of the process, and returns nil when its logger does not end it.
func (p *pebbleShelf) write(b *batch) (err error) {
	if err := errors.Join(p.failure(), room(p.dir, pebbleReserve)); err != nil {
		return err
	}
	w := p.db.NewBatch()
	defer func() { err = errors.Join(err, w.Close()) }()
	if b.from != 0 {
		if err := w.DeleteRange(entryKey(b.from), after(entryKey(b.to)), nil); err != nil {
			return err
		}
	}
	for _, put := range b.puts {
		if err := w.Set(put.key, put.value, nil); err != nil {
			return err
		}
	}
	if err := w.Commit(pebble.Sync); err != nil {
		return err
	}
	return p.failure()
}

// after is the key right behind another.
func after(key []byte) []byte { return append(slices.Clip(key), 0) }

func (p *pebbleShelf) get(key []byte) ([]byte, error) {
	value, closer, err := p.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, value...), closer.Close()
}

func (p *pebbleShelf) entries(visit func(uint64, []byte) error) (err error) {
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

// cut flushes the tombstone: while it is in memory no table can be dropped, and a
// log that is cut and then idle would stay as large as it was.
func (p *pebbleShelf) cut() error {
	_, err := p.db.AsyncFlush()
	return err
}

func (p *pebbleShelf) close() error { return p.db.Close() }

// pebbleLogger takes Pebble's last words for the end of the log and not of the
// process.
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

// unsyncedLogs is a disk on which Pebble's own log is written and left to the
// operating system. Pebble's own way not to sync leaves a write in the memory of
// the process for a while, where a kill takes it away.
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
