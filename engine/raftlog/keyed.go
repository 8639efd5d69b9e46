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

// shelf is what a keyed log asks of the key-value library behind it.
type shelf interface {
	// write makes a batch durable. Whole batches are best; a library that must
	// split one keeps the order of it.
	write(b *batch) error
	// get answers a copy, or nil if there is no such key.
	get(key []byte) ([]byte, error)
	// entries goes through the entries in ascending order. What it hands over is
	// valid during the call.
	entries(visit func(index uint64, record []byte) error) error
	// cut is told that a prefix is gone: now space may be given back.
	cut() error
	close() error
}

// batch is one write: a range of entries goes, then pairs are put.
type batch struct {
	// from and to are the entries to delete, inclusive; from = 0 deletes none.
	from, to uint64
	// upwards is the order of deletion which never leaves a hole in between.
	upwards bool
	puts    []pair
}

type pair struct{ key, value []byte }

// Keys of the shelves. Entries come last, so that an append is one at the end of
// the whole table.
const (
	numberPrefix byte = 1 + iota // the newest write that was no append
	stablePrefix                 // + name: term and vote
	entryPrefix                  // + index, 8 bytes, big endian
)

const entryKeyBytes = 1 + 8

func entryKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{entryPrefix}, index)
}

func entryIndex(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:entryKeyBytes]) }

func stableKey(name []byte) []byte { return append([]byte{stablePrefix}, name...) }

// keyedStore is a log on a key-value library. The library stores and finds; what
// makes it a raft log is here and so the same for all of them: no gaps, no
// deleted entries, checksums, and no further write after one has failed.
//
// Every write has a number, one higher than the one before. It is kept in each
// entry, and for other writes under a key of its own: were that key rewritten with
// each append, no two tables of an LSM tree would be disjoint and all of them were
// merged over and over.
type keyedStore struct {
	*home
	shelf shelf

	writing sync.Mutex // held to write; guards number and failed
	number  uint64
	failed  error

	// held is what readers see. Entries leave it before they are deleted, and
	// join it after they are durable.
	held atomic.Pointer[span]

	// using is shared to read, and held to close: not every library survives a
	// read after its end.
	using  sync.RWMutex
	closed bool
}

// span is the entries first to last; no entry: last = 0.
type span struct{ first, last uint64 }

func newKeyedStore(h *home, s shelf) (*keyedStore, error) {
	k := &keyedStore{home: h, shelf: s}
	if err := k.load(); err != nil {
		return nil, err
	}
	return k, k.mark.reached(k.number)
}

// load reads the whole log once: it is some tens of megabytes, which raft is about
// to read anyway, and what is wrong with it is better known now.
func (k *keyedStore) load() error {
	var held span
	err := k.shelf.entries(func(index uint64, record []byte) error {
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
	number, err := k.shelf.get([]byte{numberPrefix})
	if len(number) == 8 {
		k.number = max(k.number, binary.BigEndian.Uint64(number))
	}
	return err
}

// IsMonotonic says that gaps are refused.
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
			return raft.ErrLogNotFound // deleted meanwhile
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
	return k.shelf.get(key)
}

var errClosed = errors.New("the log is closed")

func (k *keyedStore) StoreLog(l *raft.Log) error { return k.StoreLogs([]*raft.Log{l}) }

func (k *keyedStore) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	k.writing.Lock()
	defer k.writing.Unlock()
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
	k.writing.Lock()
	defer k.writing.Unlock()
	held := *k.held.Load()
	from, to = max(from, held.first), min(to, held.last)
	if held.last == 0 || from > to {
		return nil
	}
	b := batch{from: from, to: to, upwards: from == held.first}
	switch {
	case from == held.first && to == held.last:
		held = span{}
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
	b.puts = []pair{k.numbered()}
	if err := k.write(&b); err != nil {
		return err
	}
	if b.upwards {
		return k.settle(k.shelf.cut())
	}
	return nil
}

func errMiddle(from, to uint64, held span) error {
	return fmt.Errorf("entries %d to %d are in the middle of the log from %d to %d: delete from one of its ends", from, to, held.first, held.last)
}

// numbered keeps the number of a write that appends nothing.
func (k *keyedStore) numbered() pair {
	return pair{[]byte{numberPrefix}, binary.BigEndian.AppendUint64(nil, k.number+1)}
}

// write makes a batch durable as the next write.
func (k *keyedStore) write(b *batch) error {
	if k.failed != nil {
		return errFailed(k.failed)
	}
	err := k.shelf.write(b)
	if err == nil {
		k.number++
		err = k.mark.raise(k.number)
	}
	return k.settle(err)
}

// settle makes the first error of a write the last write.
func (k *keyedStore) settle(err error) error {
	if err != nil && k.failed == nil {
		k.failed = err
	}
	return err
}

func errFailed(cause error) error {
	return fmt.Errorf("the log has failed and must be opened again: %w", cause)
}

// errMissing is what raft takes for a value that was never set; it compares the
// text.
var errMissing = errors.New("not found")

func (k *keyedStore) Set(name, value []byte) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	return k.write(&batch{puts: []pair{{stableKey(name), stableRecord(k.number+1, value)}, k.numbered()}})
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

// stableValue is the value in a record of the stable store; nil is none.
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

// number is a value that SetUint64 has written.
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
	k.writing.Lock()
	defer k.writing.Unlock()
	k.using.Lock()
	defer k.using.Unlock()
	if k.closed {
		return nil
	}
	k.closed, k.failed = true, errClosed
	return errors.Join(k.shelf.close(), k.home.close())
}
