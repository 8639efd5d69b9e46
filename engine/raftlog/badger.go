package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/hashicorp/go-hclog"

	"github.com/corvo/corvo/durable"
)

// badgerBackend keeps a log in Badger's LSM tree only. Badger would put large values into a value log, and it
// compacts the value log by statistics that compactions of the tree collect. The tree would then hold too
// little ever to be compacted, and the value log would grow for ever. So a record is split into parts that
// stay in the tree. The keys of the parts sort from the last part to part 0. An entry exists if its part 0
// exists, which holds the number of parts and is written last.
type badgerBackend struct {
	db  *badger.DB
	dir string
}

// These constants bound one Badger log. Badger holds up to badgerMemTables in memory and maps a file of twice
// a memtable's size for each. A transaction takes up to 15 % of a memtable. A value larger than that, or than
// 1 MiB, would go to the value log, so badgerPart is smaller.
const (
	badgerMemTable  = 8 << 20
	badgerMemTables = 2
	// badgerTables is how many flushed memtables may wait to be merged before writes wait for them. It bounds
	// the disk space that a log takes beyond its content.
	badgerTables   = 4
	badgerPart     = 256 << 10
	badgerValueLog = 2 << 20 // stays empty
	// badgerReserve is left free on the disk. Badger writes through mapped files, and if the disk has no room
	// for a page of one, the kernel ends the process with all its other groups.
	badgerReserve = (badgerMemTables + badgerTables) * badgerMemTable
)

func openBadger(f *Factory, h *logDir) (Store, error) {
	dir := filepath.Join(h.dir, "badger")
	if err := durable.MakeDir(dir, 0o755); err != nil {
		return nil, err
	}
	db, err := badger.Open(badger.DefaultOptions(dir).
		WithLogger(badgerLogger{f.logger()}).
		WithMetricsEnabled(false).
		WithSyncWrites(!f.NoSync).
		WithDetectConflicts(false). // there is one writer
		WithMemTableSize(badgerMemTable).
		WithNumMemtables(badgerMemTables).
		WithNumLevelZeroTables(badgerTables / 2).
		WithNumLevelZeroTablesStall(badgerTables).
		WithNumCompactors(2).
		WithNumGoroutines(1).
		WithValueThreshold(1 << 20).
		WithValueLogFileSize(badgerValueLog).
		WithCompression(options.None). // entries mostly hold compressed or random bytes; uncompressed blocks need no cache
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithChecksumVerificationMode(options.OnTableAndBlockRead))
	if err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", h.dir, err)
	}
	return keyed(h, &badgerBackend{db: db, dir: dir})
}

// write commits as many transactions as Badger needs. After a crash, an append is present up to some entry,
// and a deletion leaves no hole, because it proceeds upwards from the log's start or downwards from its end.
func (b *badgerBackend) write(w *batch) error {
	if err := checkSpace(b.dir, badgerReserve); err != nil {
		return err
	}
	t := &badgerWrite{db: b.db, tx: b.db.NewTransaction(true)}
	defer func() { t.tx.Discard() }()
	if w.from != 0 {
		if err := b.delete(t, w); err != nil {
			return err
		}
	}
	for _, put := range w.puts {
		if err := t.put(put); err != nil {
			return err
		}
	}
	return t.tx.Commit()
}

// delete deletes entry by entry, upwards or downwards, and part 0 of each entry first.
func (b *badgerBackend) delete(t *badgerWrite, w *batch) error {
	keys, err := b.keys(w.from, w.to)
	if err != nil {
		return err
	}
	orderDeletion(keys, w.upwards)
	for _, key := range keys {
		if err := t.do(func(tx *badger.Txn) error { return tx.Delete(key) }); err != nil {
			return err
		}
	}
	return nil
}

// orderDeletion orders ascending keys of parts so that a deletion that ends after any of them leaves no hole and
// no entry without one of its parts: part 0 of an entry comes before its other parts, because without part 0
// the entry does not exist.
func orderDeletion(keys [][]byte, upwards bool) {
	if !upwards {
		slices.Reverse(keys)
		return
	}
	for from := 0; from < len(keys); {
		to := from + 1
		for to < len(keys) && entryIndex(keys[to]) == entryIndex(keys[from]) {
			to++
		}
		slices.Reverse(keys[from:to])
		from = to
	}
}

// keys returns the keys of all parts of the entries in a range that includes both ends, in ascending order.
func (b *badgerBackend) keys(from, to uint64) (keys [][]byte, err error) {
	err = b.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: []byte{entryPrefix}})
		defer it.Close()
		for it.Seek(entryKey(from)); it.Valid() && entryIndex(it.Item().Key()) <= to; it.Next() {
			keys = append(keys, it.Item().KeyCopy(nil))
		}
		return nil
	})
	return keys, err
}

// badgerWrite commits its transaction when it is full, and starts the next one.
type badgerWrite struct {
	db *badger.DB
	tx *badger.Txn
}

func (t *badgerWrite) do(change func(*badger.Txn) error) error {
	err := change(t.tx)
	if !errors.Is(err, badger.ErrTxnTooBig) {
		return err
	}
	if err := t.tx.Commit(); err != nil {
		return err
	}
	t.tx = t.db.NewTransaction(true)
	return change(t.tx)
}

func (t *badgerWrite) put(p pair) error {
	if p.key[0] != entryPrefix {
		return t.do(func(tx *badger.Txn) error { return tx.Set(p.key, p.value) })
	}
	parts := (len(p.value) + badgerPart - 1) / badgerPart
	for n := parts - 1; n >= 0; n-- {
		value := p.value[n*badgerPart : min(len(p.value), (n+1)*badgerPart)]
		if n == 0 {
			value = append(binary.BigEndian.AppendUint16(nil, uint16(parts)), value...)
		}
		key := partKey(p.key, n)
		if err := t.do(func(tx *badger.Txn) error { return tx.Set(key, value) }); err != nil {
			return err
		}
	}
	return nil
}

// partKey returns the key of an entry's part. The last part sorts first.
func partKey(key []byte, n int) []byte {
	return binary.BigEndian.AppendUint16(append([]byte{}, key...), ^uint16(n))
}

func (b *badgerBackend) get(key []byte) (value []byte, err error) {
	err = b.db.View(func(tx *badger.Txn) (err error) {
		if key[0] == entryPrefix {
			value, err = entryRecord(tx, key)
			return err
		}
		value, err = part(tx, key)
		return err
	})
	return value, err
}

// part returns nil if the key does not exist.
func part(tx *badger.Txn, key []byte) ([]byte, error) {
	item, err := tx.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value, err := item.ValueCopy([]byte{})
	if value == nil && err == nil {
		value = []byte{}
	}
	return value, err
}

// entryRecord returns an entry's record, or nil if its part 0 does not exist.
func entryRecord(tx *badger.Txn, key []byte) ([]byte, error) {
	head, err := part(tx, partKey(key, 0))
	if err != nil || head == nil {
		return nil, err
	}
	if len(head) < 2 {
		return nil, errDamaged
	}
	record := head[2:]
	for n := 1; n < int(binary.BigEndian.Uint16(head)); n++ {
		more, err := part(tx, partKey(key, n))
		if err != nil {
			return nil, err
		}
		if more == nil {
			return nil, fmt.Errorf("part %d of entry %d is missing: %w", n, entryIndex(key), errDamaged)
		}
		record = append(record, more...)
	}
	return record, nil
}

func (b *badgerBackend) entries(visit func(uint64, []byte) error) error {
	return b.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: []byte{entryPrefix}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()
			if len(key) != entryKeyBytes+2 {
				return fmt.Errorf("a key of %d bytes among the entries: %w", len(key), errDamaged)
			}
			if binary.BigEndian.Uint16(key[entryKeyBytes:]) != ^uint16(0) {
				continue // read together with part 0
			}
			record, err := entryRecord(tx, key[:entryKeyBytes])
			if err != nil {
				return err
			}
			if err := visit(entryIndex(key), record); err != nil {
				return err
			}
		}
		return nil
	})
}

// reclaim does nothing, because Badger's compactions free the space.
func (*badgerBackend) reclaim() error { return nil }

func (b *badgerBackend) close() error { return b.db.Close() }

// badgerLogger lowers errors, infos and debug messages by one level, because Badger logs every file at level
// info.
type badgerLogger struct{ hclog.Logger }

func (l badgerLogger) log(level hclog.Level, format string, args []any) {
	l.Log(level, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l badgerLogger) Errorf(format string, args ...any)   { l.log(hclog.Warn, format, args) }
func (l badgerLogger) Warningf(format string, args ...any) { l.log(hclog.Warn, format, args) }
func (l badgerLogger) Infof(format string, args ...any)    { l.log(hclog.Debug, format, args) }
func (l badgerLogger) Debugf(format string, args ...any)   { l.log(hclog.Trace, format, args) }
