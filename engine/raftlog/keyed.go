package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// backend is the interface of a keyed log to its key-value library.
type backend interface {
	// write makes a batch durable. It should be atomic; a library that must split the batch keeps its order.
	write(b *batch) error
	// get returns a copy of the value, or nil if the key does not exist.
	get(key []byte) ([]byte, error)
	// entries visits the entries in ascending order. record is valid only during the call.
	entries(visit func(index uint64, record []byte) error) error
	// reclaim is called after the deletion of a prefix, or of the whole log, so that the library can free the
	// space.
	reclaim() error
	close() error
}

// batch is one write: it deletes a range of entries and then puts pairs.
type batch struct {
	// from and to are the entries to delete, inclusive; from = 0 deletes none.
	from, to uint64
	// upwards is the direction of the deletion, chosen so that a partial deletion leaves no hole.
	upwards bool
	puts    []pair
}

type pair struct{ key, value []byte }

// These prefixes start the keys of the backends. Entries come last, so that an append goes to the end of the
// whole table.
const (
	numberPrefix byte = 1 + iota // the number of the newest write that was no append
	stablePrefix                 // + name: term and vote
	entryPrefix                  // + index, 8 bytes, big endian
)

const entryKeyBytes = 1 + 8

func entryKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{entryPrefix}, index)
}

func entryIndex(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:entryKeyBytes]) }

func stableKey(name []byte) []byte { return append([]byte{stablePrefix}, name...) }

// keyedStore is a log on a key-value library. The library only stores and finds pairs. keyedStore implements
// the rest of the Store contract for all libraries: no gaps, no deleted entries, checksums, and no further
// write after a failed one.
//
// Every write has a number, one higher than the write before. Entries contain the number of their append;
// every other write puts its number under one key. If an append rewrote that key too, no two tables of an LSM
// tree would be disjoint, and all of them would be merged repeatedly.
type keyedStore struct {
	*logDir
	backend backend

	writeMu sync.Mutex // held to write; guards number and failed
	number  uint64
	failed  error

	// held is the range that readers see. Entries leave it before they are deleted, and join it after they
	// are durable.
	held atomic.Pointer[indexRange]

	// using is shared to read and locked to close, because not every library survives a read after its end.
	using  sync.RWMutex
	closed bool
}

// indexRange is the range of entries from first to last; last = 0 is an empty range.
type indexRange struct{ first, last uint64 }

func newKeyedStore(h *logDir, s backend) (*keyedStore, error) {
	k := &keyedStore{logDir: h, backend: s}
	if err := k.load(); err != nil {
		return nil, err
	}
	return k, k.mark.reached(k.number)
}

// load reads and checks the whole log once. The log has some tens of megabytes, which raft is about to read
// anyway, and damage should be known early.
func (k *keyedStore) load() error {
	var held indexRange
	err := k.backend.entries(func(index uint64, record []byte) error {
		number, _, err := checkRecord(record)
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		if held.last != 0 && index != held.last+1 {
			return fmt.Errorf("entry %d comes after %d: %w", index, held.last, errDamaged)
		}
		if held.first == 0 {
			held.first = index
		}
		held.last, k.number = index, max(k.number, number)
		return nil
	})
	if err != nil {
		return err
	}
	k.held.Store(&held)
	number, err := k.backend.get([]byte{numberPrefix})
	if len(number) == 8 {
		k.number = max(k.number, binary.BigEndian.Uint64(number))
	}
	return err
}

// IsMonotonic reports that gaps are refused.
func (*keyedStore) IsMonotonic() bool { return true }

func (k *keyedStore) FirstIndex() (uint64, error) { return k.held.Load().first, nil }
func (k *keyedStore) LastIndex() (uint64, error)  { return k.held.Load().last, nil }

func (k *keyedStore) holds(index uint64) bool {
	held := k.held.Load()
	return index != 0 && held.first <= index && index <= held.last
}

func (k *keyedStore) GetLog(index uint64, l *raft.Log) error {
	if !k.holds(index) {
		return raft.ErrLogNotFound
	}
	record, err := k.get(entryKey(index))
	if err != nil {
		return fmt.Errorf("entry %d of the log in %s: %w", index, k.dir, err)
	}
	if record == nil {
		if !k.holds(index) {
			return raft.ErrLogNotFound // deleted in the meantime
		}
		return fmt.Errorf("entry %d of the log in %s is missing: %w", index, k.dir, errDamaged)
	}
	if _, err := decodeRecord(record, l); err != nil {
		return fmt.Errorf("entry %d of the log in %s: %w", index, k.dir, err)
	}
	if l.Index != index {
		return fmt.Errorf("entry %d is in the place of entry %d of the log in %s: %w", l.Index, index, k.dir, errDamaged)
	}
	return nil
}

func (k *keyedStore) get(key []byte) ([]byte, error) {
	k.using.RLock()
	defer k.using.RUnlock()
	if k.closed {
		return nil, errClosed
	}
	return k.backend.get(key)
}

var errClosed = errors.New("the log is closed")

func (k *keyedStore) StoreLog(l *raft.Log) error { return k.StoreLogs([]*raft.Log{l}) }

func (k *keyedStore) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	k.writeMu.Lock()
	defer k.writeMu.Unlock()
	held := *k.held.Load()
	b := batch{puts: make([]pair, 0, len(logs))}
	for _, l := range logs {
		if held.last != 0 && l.Index != held.last+1 || l.Index == 0 {
			return errGap(l.Index, held.last)
		}
		if held.first == 0 {
			held.first = l.Index
		}
		held.last = l.Index
		var record bytes.Buffer
		if err := encodeRecord(&record, k.number+1, l); err != nil {
			return err
		}
		b.puts = append(b.puts, pair{entryKey(l.Index), record.Bytes()})
	}
	if err := k.write(&b); err != nil {
		return err
	}
	k.held.Store(&held)
	return nil
}

func errGap(index, last uint64) error {
	return fmt.Errorf("entry %d cannot follow entry %d: delete what is in between first", index, last)
}

func (k *keyedStore) DeleteRange(from, to uint64) error {
	k.writeMu.Lock()
	defer k.writeMu.Unlock()
	held := *k.held.Load()
	from, to = max(from, held.first), min(to, held.last)
	if held.last == 0 || from > to {
		return nil
	}
	b := batch{from: from, to: to, upwards: from == held.first}
	switch {
	case from == held.first && to == held.last:
		held = indexRange{}
	case from == held.first:
		held.first = to + 1
	case to == held.last:
		held.last = from - 1
	default:
		return errMiddle(from, to, held)
	}
	if k.failed == nil {
		k.held.Store(&held)
	}
	b.puts = []pair{k.numberPair()}
	if err := k.write(&b); err != nil {
		return err
	}
	if b.upwards {
		return k.recordFailure(k.backend.reclaim())
	}
	return nil
}

func errMiddle(from, to uint64, held indexRange) error {
	return fmt.Errorf("entries %d to %d are in the middle of the log from %d to %d: delete from one of its ends", from, to, held.first, held.last)
}

// numberPair returns the pair that stores the number of a write which appends nothing.
func (k *keyedStore) numberPair() pair {
	return pair{[]byte{numberPrefix}, binary.BigEndian.AppendUint64(nil, k.number+1)}
}

// write makes a batch durable as the next write.
func (k *keyedStore) write(b *batch) error {
	if k.failed != nil {
		return errFailed(k.failed)
	}
	err := k.backend.write(b)
	if err == nil {
		k.number++
		err = k.mark.raise(k.number)
	}
	return k.recordFailure(err)
}

// recordFailure remembers the first error, after which every write fails.
func (k *keyedStore) recordFailure(err error) error {
	if err != nil && k.failed == nil {
		k.failed = err
	}
	return err
}

func errFailed(cause error) error {
	return fmt.Errorf("the log has failed and must be opened again: %w", cause)
}

// errMissing reports a value that was never set. Raft compares the text.
var errMissing = errors.New("not found")

func (k *keyedStore) Set(name, value []byte) error {
	k.writeMu.Lock()
	defer k.writeMu.Unlock()
	return k.write(&batch{puts: []pair{{stableKey(name), stableRecord(k.number+1, value)}, k.numberPair()}})
}

func (k *keyedStore) Get(name []byte) ([]byte, error) {
	record, err := k.get(stableKey(name))
	if err != nil {
		return nil, err
	}
	return stableValue(name, record)
}

func (k *keyedStore) SetUint64(name []byte, value uint64) error {
	return k.Set(name, binary.BigEndian.AppendUint64(nil, value))
}

func (k *keyedStore) GetUint64(name []byte) (uint64, error) {
	return number(k, name)
}

// stableValue returns the value in a record of the stable store; a nil record gives errMissing.
func stableValue(name, record []byte) ([]byte, error) {
	if record == nil {
		return nil, errMissing
	}
	_, value, err := checkRecord(record)
	if err != nil {
		err = fmt.Errorf("value %q: %w", name, err)
	}
	return value, err
}

// number returns a value that SetUint64 has written.
func number(from raft.StableStore, name []byte) (uint64, error) {
	value, err := from.Get(name)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%q is no number but %d bytes", name, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

func (k *keyedStore) Size() (int64, error) { return k.size() }

func (k *keyedStore) Close() error {
	k.writeMu.Lock()
	defer k.writeMu.Unlock()
	k.using.Lock()
	defer k.using.Unlock()
	if k.closed {
		return nil
	}
	k.closed, k.failed = true, errClosed
	return errors.Join(k.backend.close(), k.logDir.close())
}
