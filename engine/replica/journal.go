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

// Log is the store of a group's log, term and vote. Size is the bytes it takes on
// disk. A method that returned nil has made its change durable.
type Log interface {
	raft.LogStore
	raft.StableStore
	io.Closer
	Size() (int64, error)
}

// journal is the Log as raft sees it. It measures what is appended, so that
// snapshots are due by bytes, and it turns everything that fails into the end of
// the replica: after a failed write it is not known what is on disk, and a log that
// goes on from there may have holes. Nothing is written after the first failure,
// whatever raft goes on to do until it is shut down.
type journal struct {
	Log
	stop   func(error)
	broken atomic.Pointer[error] // the first failure
	// due gets a token when more than limit bytes were appended since the cut.
	due   chan struct{}
	limit int64

	last    atomic.Uint64 // the newest entry that was appended
	written written
	arrived awaiting // those who wait for one

	mu    sync.Mutex
	total int64  // bytes appended, on top of the log's size when it was opened
	cut   int64  // total as of the newest snapshot
	marks []mark // ascending; where in the log which total was reached
}

type mark struct {
	index uint64
	total int64
}

// written counts what was appended to a log since it was opened.
type written struct{ appends, entries, bytes atomic.Uint64 }

// count adds one append, which the log store has synced once.
func (w *written) count(logs []*raft.Log) {
	bytes := 0
	for _, l := range logs {
		bytes += len(l.Data) + len(l.Extensions)
	}
	w.appends.Add(1)
	w.entries.Add(uint64(len(logs)))
	w.bytes.Add(uint64(bytes))
}

// markBytes is how finely the journal knows where its bytes are.
const markBytes = 64 << 10

// entryOverhead stands for what a log store writes around an entry's bytes.
const entryOverhead = 64

// newJournal counts what the log holds already as not covered by a snapshot:
// were it forgotten, a group that is opened often and writes little would never
// cut its log.
func newJournal(log Log, limit int64, fail func(error)) (*journal, error) {
	size, err := log.Size()
	if err != nil {
		return nil, fmt.Errorf("size of the log: %w", err)
	}
	return &journal{Log: log, stop: fail, limit: limit, due: make(chan struct{}, 1), total: size}, nil
}

// IsMonotonic passes on whether the store refuses gaps.
func (j *journal) IsMonotonic() bool {
	m, ok := j.Log.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// fail stops the replica.
func (j *journal) fail(err error) {
	j.broken.CompareAndSwap(nil, &err)
	j.stop(err)
}

// sound is why nothing may be written any more.
func (j *journal) sound() error {
	if err := j.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// GetLog answers an empty entry where an entry cannot be read: raft panics if it
// cannot read what it is about to apply, which would take the process and all its
// other groups down. The replica has stopped by then. It applies nothing (fsm),
// writes nothing (sound) and sends nothing (wire), so that nobody can take the
// empty entry for one of the log. What is not in the log is another matter: raft
// asks, and sends a snapshot instead.
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
	if err := j.sound(); err != nil {
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
	j.arrived.reached(last)
	return nil
}

func (j *journal) DeleteRange(from, to uint64) error {
	if err := j.sound(); err != nil {
		return err
	}
	if err := j.Log.DeleteRange(from, to); err != nil {
		j.fail(fmt.Errorf("cut the log from %d to %d: %w", from, to, err))
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// A prefix takes the marks below it away, a suffix those from it on.
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
	if err := j.sound(); err != nil {
		return err
	}
	if err := j.Log.Set(key, value); err != nil {
		j.fail(fmt.Errorf("write the vote: %w", err))
		return err
	}
	return nil
}

// SetUint64 answers nil although the write has failed: raft stores its term with
// it and panics on an error, which would take the process and all its other
// groups down. The replica has stopped by then, and a stopped replica neither
// votes (Set) nor appends (StoreLogs), so nobody can build on that term.
func (j *journal) SetUint64(key []byte, value uint64) error {
	if j.sound() != nil {
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

// since is how many bytes were appended after the newest snapshot, at most
// markBytes and an entry too many.
func (j *journal) since() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total - j.cut
}

// cutAt tells the journal of a snapshot at index.
func (j *journal) cutAt(index uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if index >= j.last.Load() { // nothing is left of the log
		j.cut = j.total
		return
	}
	if n := sort.Search(len(j.marks), func(i int) bool { return j.marks[i].index > index }); n > 0 {
		j.cut = max(j.cut, j.marks[n-1].total)
	}
}

// trailing is how many of the newest entries, up to last, take about the given
// bytes; at least 1. Where the log reaches back further than is known (before
// this process opened it), what is not known does not count as kept.
func (j *journal) trailing(last uint64, bytes int64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := sort.Search(len(j.marks), func(i int) bool { return j.marks[i].total > j.total-bytes })
	if n == len(j.marks) || j.marks[n].index >= last {
		return 1
	}
	return last - j.marks[n].index + 1
}
