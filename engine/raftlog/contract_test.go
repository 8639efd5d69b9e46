package raftlog

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
)

// testFields checks that every field keeps its value, at its largest and when empty.
func testFields(t *testing.T, open func() Store) {
	s := open()
	want := []*raft.Log{
		{Index: math.MaxInt64, Term: math.MaxUint64, Type: raft.LogConfiguration, Data: []byte{0}, Extensions: []byte{1}},
		{Index: math.MaxInt64 + 1, Type: raft.LogNoop, AppendedAt: time.Date(2026, 11, 21, 1, 2, 3, 123456789, time.FixedZone("", 3600))},
		{Index: math.MaxInt64 + 2, Type: raft.LogBarrier, Extensions: bytes.Repeat([]byte{255}, 70_000)},
		{Index: math.MaxInt64 + 3, Type: raft.LogCommand, Data: bytes.Repeat([]byte{0}, 70_000)},
	}
	store(t, s, want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	got := raft.Log{Data: []byte("of another entry"), Extensions: []byte("too"), AppendedAt: time.Now()}
	for _, w := range want {
		if err := s.GetLog(w.Index, &got); err != nil {
			t.Fatal(err)
		}
		if !equalLogs(w, &got) {
			t.Errorf("entry %d (-want +got):\n%s", w.Index, cmp.Diff(*w, got, cmpopts.EquateEmpty()))
		}
	}
}

// testGaps checks that an append that would leave a gap, or store an entry twice, is refused without any
// effect.
func testGaps(t *testing.T, open func() Store) {
	s := open()
	if !s.IsMonotonic() {
		t.Error("raft is not told that there are no gaps")
	}
	store(t, s, logs(5, 10, 1))
	for name, refused := range map[string][]*raft.Log{
		"ahead":          logs(12, 12, 1),
		"the same":       logs(10, 11, 2),
		"before":         logs(4, 4, 1),
		"none":           logs(0, 0, 1),
		"hole in itself": {logAt(11, 1), logAt(12, 1), logAt(14, 1)},
		"twice":          {logAt(11, 1), logAt(11, 1)},
	} {
		if err := s.StoreLogs(refused); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := s.StoreLogs(nil); err != nil {
		t.Error(err)
	}
	wantLogs(t, s, logs(5, 10, 1))
	store(t, s, logs(11, 12, 2))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantLogs(t, open(), append(logs(5, 10, 1), logs(11, 12, 2)...))
}

func testNothingToDelete(t *testing.T, open func() Store) {
	s := open()
	remove(t, s, 1, 10)
	store(t, s, logs(5, 10, 1))
	for _, outside := range []indexRange{{1, 4}, {11, 20}, {8, 7}, {math.MaxUint64, math.MaxUint64}} {
		remove(t, s, outside.first, outside.last)
	}
	if err := s.DeleteRange(6, 9); err == nil {
		t.Error("the middle could be deleted")
	}
	wantLogs(t, s, logs(5, 10, 1))
	remove(t, s, 9, math.MaxUint64)
	wantLogs(t, s, logs(5, 8, 1))
	remove(t, s, 0, 5)
	wantLogs(t, s, logs(6, 8, 1))
	remove(t, s, 0, math.MaxUint64)
	wantLogs(t, s, nil)
}

// testAnotherKind checks that a directory keeps its kind even if its log is empty.
func testAnotherKind(t *testing.T, open func() Store) {
	s := open()
	dir, is := s.(located).directory(), s.(located).ofKind()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, other := range Kinds() {
		if Kind(other) == is {
			continue
		}
		_, err := (&Factory{}).Open(dir, Kind(other))
		if api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), string(is)) {
			t.Errorf("opened as %s: %v", other, err)
		}
	}
	wantLogs(t, open(), nil)
}

func testClosed(t *testing.T, open func() Store) {
	s := open()
	store(t, s, logs(1, 3, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.StoreLog(logAt(4, 1)); err == nil {
		t.Error("appended to a closed log")
	}
	if err := s.Set([]byte("vote"), nil); err == nil {
		t.Error("voted in a closed log")
	}
	if err := s.GetLog(1, new(raft.Log)); err == nil {
		t.Error("read from a closed log")
	}
	if _, err := s.Get([]byte("vote")); err == nil {
		t.Error("read a value from a closed log")
	}
}

// TestForeignDirectory checks that a directory with foreign files is left unchanged.
func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letters"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range Kinds() {
		if _, err := (&Factory{}).Open(dir, Kind(kind)); api.CodeOf(err) != api.Conflict {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestRaftKnowsANewLog checks that raft recognises the error for a missing value.
func TestRaftKnowsANewLog(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		s := open(t, t.TempDir(), Kind(kind))
		if has, err := raft.HasExistingState(s, s, raft.NewInmemSnapshotStore()); has || err != nil {
			t.Errorf("%s: %v, %v", kind, has, err)
		}
		if err := s.SetUint64([]byte("CurrentTerm"), 1); err != nil {
			t.Fatal(err)
		}
		if has, err := raft.HasExistingState(s, s, raft.NewInmemSnapshotStore()); !has || err != nil {
			t.Errorf("%s with a term: %v, %v", kind, has, err)
		}
	}
}

// failedOnce checks that all writes fail after the first failed one.
func failedOnce(t *testing.T, s Store) {
	t.Helper()
	last, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StoreLog(logAt(last+1, 9)); err == nil || errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("append after a failure: %v", err)
	}
	if err := s.DeleteRange(0, last); err == nil {
		t.Error("deleted after a failure")
	}
}
