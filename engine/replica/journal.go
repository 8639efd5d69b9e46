package replica

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Log stores a group's log, term and vote. Size returns the bytes that they take on disk. A method that
// returns nil has made its change durable.
type Log interface {
	raft.LogStore
	raft.StableStore
	io.Closer
	Size() (int64, error)
}

// journal wraps the Log for raft. It counts the appended bytes, because snapshots are due by bytes. It stops
// the replica at the first failed operation, because the content of the disk is unknown after a failed write
// and a log that goes on from there may have holes. It writes nothing after the first failure, even though
// raft keeps trying until it is shut down.
type journal struct {
	Log
	stop   func(error)
	broken atomic.Pointer[error] // the first failure
	// due receives a token at an append if at least limit bytes were appended since the newest snapshot.
	due   chan struct{}
	limit int64

	last          atomic.Uint64 // index of the entry that was appended last; a deletion does not lower it
	written       written
	appendWaiters indexWaiters // waiters for entries to be appended

	mu    sync.Mutex
	total int64  // bytes appended, plus the log's size when it was opened
	cut   int64  // total as of the newest snapshot
	marks []mark // ascending; the total reached at some indexes of the log
}

type mark struct {
	index uint64
	total int64
}

// written counts the appends since the log was opened.
type written struct{ appends, entries, bytes atomic.Uint64 }

// count adds one append, which the log store synced once.
func (w *written) count(logs []*raft.Log) {
	bytes := 0
	for _, l := range logs {
		bytes += len(l.Data) + len(l.Extensions)
	}
	w.appends.Add(1)
	w.entries.Add(uint64(len(logs)))
	w.bytes.Add(uint64(bytes))
}

// markBytes is the distance in bytes between two marks.
const markBytes = 64 << 10

// entryOverhead estimates the bytes that a log store writes around an entry.
const entryOverhead = 64

// newJournal counts the log's present content as not covered by a snapshot, so that a group that is opened
// often and writes little still truncates its log.
func newJournal(log Log, limit int64, fail func(error)) (*journal, error) {
	size, err := log.Size()
	if err != nil {
		return nil, fmt.Errorf("size of the log: %w", err)
	}
	return &journal{Log: log, stop: fail, limit: limit, due: make(chan struct{}, 1), total: size}, nil
}

// IsMonotonic reports whether the store refuses gaps.
func (j *journal) IsMonotonic() bool {
	m, ok := j.Log.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// fail stops the replica and all writes to the log.
func (j *journal) fail(err error) {
	j.broken.CompareAndSwap(nil, &err)
	j.stop(err)
}

// firstFailure returns the first failure, or nil. After a failure nothing may be written.
func (j *journal) firstFailure() error {
	if err := j.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// GetLog returns an empty entry if an entry cannot be read. Raft panics if it cannot read an entry that it is
// about to apply, and the panic would take down the process with all its other groups. The replica has
// stopped by then: it applies nothing (fsm), writes nothing (firstFailure) and sends no entries
// (raftTransport), so that no member can take the empty entry for a real one. An entry that is not in the log
// is no failure: raft asks for it and sends a snapshot instead.
func (j *journal) GetLog(index uint64, log *raft.Log) error {
	err := j.Log.GetLog(index, log)
	if err == nil || errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	j.fail(fmt.Errorf("read entry %d of the log: %w", index, err))
	*log = raft.Log{Index: index, Type: raft.LogNoop}
	return nil
}

func (j *journal) StoreLog(log *raft.Log) error { return j.StoreLogs([]*raft.Log{log}) }

func (j *journal) StoreLogs(logs []*raft.Log) error {
	if err := j.firstFailure(); err != nil {
		return err
	}
	if err := j.Log.StoreLogs(logs); err != nil {
		j.fail(fmt.Errorf("append to the log: %w", err))
		return err
	}
	j.measure(logs...)
	j.written.count(logs)
	last := logs[len(logs)-1].Index
	j.last.Store(last)
	j.appendWaiters.reached(last)
	return nil
}

func (j *journal) DeleteRange(from, to uint64) error {
	if err := j.firstFailure(); err != nil {
		return err
	}
	if err := j.Log.DeleteRange(from, to); err != nil {
		j.fail(fmt.Errorf("cut the log from %d to %d: %w", from, to, err))
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// Drop the marks of the deleted entries.
	kept := j.marks[:0]
	for _, m := range j.marks {
		if m.index < from || m.index > to {
			kept = append(kept, m)
		}
	}
	j.marks = kept
	return nil
}

func (j *journal) Set(key, value []byte) error {
	if err := j.firstFailure(); err != nil {
		return err
	}
	if err := j.Log.Set(key, value); err != nil {
		j.fail(fmt.Errorf("write the vote: %w", err))
		return err
	}
	return nil
}

// SetUint64 returns nil even if the write has failed. Raft stores its term with it and panics on an error,
// which would take down the process with all its other groups. The replica has stopped by then. A stopped
// replica neither votes (Set) nor appends (StoreLogs), so nobody can rely on that term.
func (j *journal) SetUint64(key []byte, value uint64) error {
	if j.firstFailure() != nil {
		return nil
	}
	if err := j.Log.SetUint64(key, value); err != nil {
		j.fail(fmt.Errorf("write the term: %w", err))
	}
	return nil
}

func (j *journal) measure(logs ...*raft.Log) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range logs {
		j.total += int64(len(l.Data)+len(l.Extensions)) + entryOverhead
		if n := len(j.marks); n == 0 || j.total-j.marks[n-1].total >= markBytes {
			j.marks = append(j.marks, mark{l.Index, j.total})
		}
	}
	if j.total-j.cut >= j.limit {
		select {
		case j.due <- struct{}{}:
		default:
		}
	}
}

// sinceSnapshot returns the bytes appended after the newest snapshot. The result may be too high, by up to
// markBytes and one entry or, until the first snapshot, by the space that the log had preallocated when it
// was opened.
func (j *journal) sinceSnapshot() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total - j.cut
}

// cutAt tells the journal that a snapshot covers the log up to index.
func (j *journal) cutAt(index uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if index >= j.last.Load() { // the snapshot covers the whole log
		j.cut = j.total
		return
	}
	if n := sort.Search(len(j.marks), func(i int) bool { return j.marks[i].index > index }); n > 0 {
		j.cut = max(j.cut, j.marks[n-1].total)
	}
}

// trailing returns how many of the newest entries, up to last, take about the given bytes, and at least 1.
// Entries that were appended before this process opened the log have no marks and are not counted.
func (j *journal) trailing(last uint64, bytes int64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := sort.Search(len(j.marks), func(i int) bool { return j.marks[i].total > j.total-bytes })
	if n == len(j.marks) || j.marks[n].index >= last {
		return 1
	}
	return last - j.marks[n].index + 1
}
