package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/corvo/corvo/api"

	"github.com/corvo/corvo/engine/entry"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		die(dir)
	}
	// Badger leaves these goroutines when a damaged log cannot be opened, as in some tests. TestCloseJoins
	// checks that a log that was opened and closed leaves none.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/badger/v4.(*DB).updateSize"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/badger/v4/y.(*WaterMark).process"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"))
}

// TestCloseJoins checks that a closed log leaves no goroutine. It is not parallel, because other tests have
// goroutines of their own.
func TestCloseJoins(t *testing.T) {
	for _, kind := range Kinds() {
		before := goleak.IgnoreCurrent()
		s := open(t, t.TempDir(), Kind(kind))
		store(t, s, logs(1, 100, 1))
		remove(t, s, 1, 50)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := goleak.Find(before); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestConformance runs the suite on every kind. Segments have the smallest size, so that the suite fills
// several.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for name, test := range suite {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					test(t, func() Store { return open(t, dir, Kind(kind)) })
				})
			}
		})
	}
}

func open(t *testing.T, dir string, kind Kind) Store {
	t.Helper()
	s, err := openWith(&Factory{SegmentBytes: MinSegmentBytes, Logger: hclog.NewNullLogger()}, dir, kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // tests may have closed it
	return s
}

// forks is held while a process is started. Until the child runs its own program, it holds all files of this
// process, and with them the locks of logs that are closed here in the meantime. Only when the child runs its
// program can such a log be opened again.
var forks sync.RWMutex

func openWith(f *Factory, dir string, kind Kind) (Store, error) {
	forks.RLock()
	defer forks.RUnlock()
	return f.Open(dir, kind)
}

// suite lists the tests of the Store contract. A test may open its store any number of times, one at a time.
var suite = map[string]func(t *testing.T, open func() Store){
	"empty":               testEmpty,
	"append and read":     testAppend,
	"reopen":              testReopen,
	"crash":               testCrash,
	"conflict":            testConflict,
	"many conflicts":      testConflicts,
	"prefix deletion":     testPrefix,
	"delete all, go on":   testDeleteAll,
	"large entries":       testLarge,
	"the largest entry":   testLargest,
	"stable values":       testStable,
	"read while writing":  testConcurrentReads,
	"size":                testSize,
	"close and reopen":    testCloseReopen,
	"in use":              testInUse,
	"starts at any index": testStartsAnywhere,
	"fields":              testFields,
	"gaps":                testGaps,
	"nothing to delete":   testNothingToDelete,
	"another kind":        testAnotherKind,
	"closed":              testClosed,
}

// entryBytes is a size of which about sixteen entries fit into a segment.
const entryBytes = 4 << 10

func logAt(index, term uint64) *raft.Log {
	return &raft.Log{
		Index: index, Term: term, Type: raft.LogCommand,
		Data:       bytes.Repeat(fmt.Appendf(nil, "%d/%d ", term, index), entryBytes/16),
		Extensions: fmt.Appendf(nil, "x%d", index),
		AppendedAt: time.Unix(1_700_000_000, int64(index)),
	}
}

func logs(from, to, term uint64) []*raft.Log {
	var all []*raft.Log
	for i := from; i <= to; i++ {
		all = append(all, logAt(i, term))
	}
	return all
}

func store(t *testing.T, s Store, all []*raft.Log) {
	t.Helper()
	for len(all) > 0 { // in batches of up to five
		n := min(5, len(all))
		if err := s.StoreLogs(all[:n]); err != nil {
			t.Fatal(err)
		}
		all = all[n:]
	}
}

func remove(t *testing.T, s Store, from, to uint64) {
	t.Helper()
	if err := s.DeleteRange(from, to); err != nil {
		t.Fatal(err)
	}
}

// equalLogs compares two entries. Package cmp only explains a difference, because tests compare a great many
// entries and cmp takes much longer.
func equalLogs(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && a.AppendedAt.Equal(b.AppendedAt) &&
		bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Extensions, b.Extensions)
}

// wantLogs checks that the log holds exactly these entries.
func wantLogs(t *testing.T, s Store, want []*raft.Log) {
	t.Helper()
	first, err := s.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	last, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	var wantFirst, wantLast uint64
	if len(want) > 0 {
		wantFirst, wantLast = want[0].Index, want[len(want)-1].Index
	}
	if first != wantFirst || last != wantLast {
		t.Fatalf("log from %d to %d, want from %d to %d", first, last, wantFirst, wantLast)
	}
	for _, w := range want {
		var got raft.Log
		if err := s.GetLog(w.Index, &got); err != nil {
			t.Fatalf("entry %d: %v", w.Index, err)
		}
		if !equalLogs(w, &got) {
			t.Fatalf("entry %d (-want +got):\n%s", w.Index, cmp.Diff(*w, got, cmpopts.EquateEmpty()))
		}
	}
	outside := []uint64{0, wantLast + 1, wantLast + 100}
	for i := uint64(1); i < wantFirst; i++ {
		outside = append(outside, i)
	}
	for _, index := range outside {
		if err := s.GetLog(index, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d, which is not in the log: %v", index, err)
		}
	}
}

func testEmpty(t *testing.T, open func() Store) {
	wantLogs(t, open(), nil)
}

func testAppend(t *testing.T, open func() Store) {
	s := open()
	if err := s.StoreLog(logAt(1, 1)); err != nil {
		t.Fatal(err)
	}
	store(t, s, logs(2, 100, 2))
	wantLogs(t, s, append(logs(1, 1, 1), logs(2, 100, 2)...))
}

func testReopen(t *testing.T, open func() Store) {
	want := logs(1, 100, 3)
	s := open()
	store(t, s, want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantLogs(t, open(), want)
}

func testConflict(t *testing.T, open func() Store) {
	for _, from := range []uint64{60, 40, 17, 2, 1} { // in the tail, in sealed segments, all
		s := open()
		last, err := s.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		remove(t, s, 1, last)
		store(t, s, logs(1, 60, 1))
		remove(t, s, from, 60)
		wantLogs(t, s, logs(1, from-1, 1))
		store(t, s, logs(from, from+30, 2))
		want := append(logs(1, from-1, 1), logs(from, from+30, 2)...)
		wantLogs(t, s, want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := open()
		wantLogs(t, again, want)
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// testConflicts deletes ever longer suffixes, and opens the log again in between.
func testConflicts(t *testing.T, open func() Store) {
	s := open()
	want := logs(1, 60, 1)
	store(t, s, want)
	for term, from := uint64(2), uint64(58); from > 3; term, from = term+1, from-5 {
		remove(t, s, from, uint64(len(want)))
		want = append(want[:from-1], logs(from, from+2, term)...)
		store(t, s, want[from-1:])
		if term%3 == 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open()
		}
		wantLogs(t, s, want)
	}
}

func testPrefix(t *testing.T, open func() Store) {
	s := open()
	store(t, s, logs(1, 100, 1))
	for _, to := range []uint64{1, 2, 40, 98} {
		remove(t, s, 1, to)
		wantLogs(t, s, logs(to+1, 100, 1))
	}
	remove(t, s, 1, 50) // deleted before
	store(t, s, logs(101, 120, 2))
	want := append(logs(99, 100, 1), logs(101, 120, 2)...)
	wantLogs(t, s, want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantLogs(t, open(), want)
}

func testDeleteAll(t *testing.T, open func() Store) {
	s := open()
	store(t, s, logs(1, 50, 1))
	remove(t, s, 1, 50)
	wantLogs(t, s, nil)
	store(t, s, logs(1000, 1050, 2)) // after installing a snapshot
	wantLogs(t, s, logs(1000, 1050, 2))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantLogs(t, open(), logs(1000, 1050, 2))
}

func testStartsAnywhere(t *testing.T, open func() Store) {
	s := open()
	store(t, s, logs(77, 99, 4))
	wantLogs(t, s, logs(77, 99, 4))
}

// testLarge appends an entry that is larger than a segment.
func testLarge(t *testing.T, open func() Store) {
	s := open()
	want := logs(1, 5, 1)
	want[2].Data = bytes.Repeat([]byte("large"), MinSegmentBytes)
	store(t, s, want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantLogs(t, open(), want)
}

// testLargest appends an entry of the largest size, which not every library reads back by itself.
func testLargest(t *testing.T, open func() Store) {
	s := open()
	want := logs(1, 2, 1)
	want[0].Data = make([]byte, entry.MaxBytes)
	store(t, s, want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantLogs(t, open(), want)
}

func testStable(t *testing.T, open func() Store) {
	s := open()
	// Raft recognises a missing value by an empty value or by this text.
	if v, err := s.Get([]byte("vote")); len(v) > 0 || (err != nil && err.Error() != "not found") {
		t.Fatalf("missing value is %q, %v", v, err)
	}
	if v, err := s.GetUint64([]byte("term")); v != 0 || (err != nil && err.Error() != "not found") {
		t.Fatalf("missing number is %d, %v", v, err)
	}
	for term := uint64(1); term <= 3; term++ {
		if err := errors.Join(s.SetUint64([]byte("term"), term), s.Set([]byte("vote"), fmt.Append(nil, term))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	term, err := s.GetUint64([]byte("term"))
	if err != nil || term != 3 {
		t.Errorf("term is %d, %v", term, err)
	}
	if vote, err := s.Get([]byte("vote")); err != nil || string(vote) != "3" {
		t.Errorf("vote is %q, %v", vote, err)
	}
}

// testConcurrentReads checks that readers see whole entries while entries are appended and the oldest are
// deleted.
func testConcurrentReads(t *testing.T, open func() Store) {
	s := open()
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				last, err := s.LastIndex()
				if err != nil {
					t.Error(err)
					return
				}
				if last == 0 {
					continue
				}
				var got raft.Log
				err = s.GetLog(last, &got)
				if errors.Is(err, raft.ErrLogNotFound) {
					continue // deleted in the meantime
				}
				if err != nil || got.Index != last || !bytes.Equal(got.Data, logAt(last, got.Term).Data) {
					t.Errorf("entry %d: got %d, %d bytes, %v", last, got.Index, len(got.Data), err)
					return
				}
			}
		})
	}
	for i := uint64(1); i <= 100; i++ {
		store(t, s, logs(i, i, 1))
		if i%25 == 0 {
			remove(t, s, 1, i-10)
		}
	}
	close(done)
	readers.Wait()
	wantLogs(t, s, logs(91, 100, 1))
}

func sizeOf(t *testing.T, s Store) int64 {
	t.Helper()
	n, err := s.Size()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// testSize checks that Size is at least the size of the entries.
func testSize(t *testing.T, open func() Store) {
	s := open()
	all := logs(1, 200, 1)
	store(t, s, all)
	var held int64
	for _, l := range all {
		held += int64(len(l.Data))
	}
	if size := sizeOf(t, s); size < held {
		t.Errorf("entries of %d bytes take %d", held, size)
	}
}

func testCloseReopen(t *testing.T, open func() Store) {
	for i := range uint64(5) {
		s := open()
		wantLogs(t, s, logs(1, i*7, 1))
		store(t, s, logs(i*7+1, i*7+7, 1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func testInUse(t *testing.T, open func() Store) {
	s := open().(located)
	_, err := (&Factory{}).Open(s.directory(), s.ofKind())
	if api.CodeOf(err) != api.Conflict {
		t.Errorf("opened twice: %v", err)
	}
}

// located is a Store whose directory and kind tests can read.
type located interface {
	directory() string
	ofKind() Kind
}

func (h *logDir) directory() string { return h.dir }
func (h *logDir) ofKind() Kind      { return h.kind }

func TestFactoryRefuses(t *testing.T) {
	t.Parallel()
	_, err := (&Factory{}).Open(t.TempDir(), "paper")
	if api.CodeOf(err) != api.Unsupported || !strings.Contains(err.Error(), "wal") {
		t.Errorf("unknown kind: %v", err)
	}
	for _, bytes := range []int{MinSegmentBytes - 1, MaxSegmentBytes + 1, -1} {
		_, err := (&Factory{SegmentBytes: bytes}).Open(t.TempDir(), WAL)
		if api.CodeOf(err) != api.ValidationError {
			t.Errorf("segments of %d bytes: %v", bytes, err)
		}
	}
}
