package faultlog_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/raftlog/faultlog"
)

func open(t *testing.T, dir string, faults *faultlog.Faults) raftlog.Store {
	t.Helper()
	f := raftlog.Factory{SegmentBytes: raftlog.MinSegmentBytes, Logger: hclog.NewNullLogger(), Wrap: faults.Wrap}
	s, err := f.Open(dir, raftlog.WAL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // tests may have closed it
	return s
}

func entry(index uint64) *raft.Log { return &raft.Log{Index: index, Term: 1, Data: []byte("data")} }

// appendUntil appends until an append fails with want, and returns the number of acknowledged entries.
func appendUntil(t *testing.T, s raftlog.Store, want error) (acknowledged uint64) {
	t.Helper()
	for i := uint64(1); i < 100; i++ {
		if err := s.StoreLog(entry(i)); err != nil {
			if !errors.Is(err, want) {
				t.Fatalf("entry %d: %v, want %v", i, err, want)
			}
			return i - 1
		}
	}
	t.Fatal("nothing failed")
	return 0
}

func last(t *testing.T, s raftlog.Store) uint64 {
	t.Helper()
	n, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault        func(*faultlog.Faults)
		want         error
		acknowledged uint64
		written      uint64
	}{
		"the third append": {func(f *faultlog.Faults) { f.FailAppend(3) }, faultlog.ErrInjected, 2, 2},
		"the third sync":   {func(f *faultlog.Faults) { f.FailSync(3) }, faultlog.ErrInjected, 2, 3},
		"a full disk":      {func(f *faultlog.Faults) { f.FillDisk(true) }, faultlog.ErrDiskFull, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var faults faultlog.Faults
			dir := t.TempDir()
			s := open(t, dir, &faults)
			if !s.IsMonotonic() {
				t.Error("raft is not told that there are no gaps")
			}
			c.fault(&faults)
			if n := appendUntil(t, s, c.want); n != c.acknowledged {
				t.Errorf("%d were acknowledged, want %d", n, c.acknowledged)
			}
			faults.FillDisk(false)
			if err := s.SetUint64([]byte("term"), 1); err == nil {
				t.Error("it was written after a failure")
			}
			if err := s.DeleteRange(1, 100); err == nil {
				t.Error("it was deleted from after a failure")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, &faults)
			if n := last(t, s); n != c.written {
				t.Errorf("it ends at %d, want %d", n, c.written)
			}
			if err := s.StoreLog(entry(c.written + 1)); err != nil {
				t.Errorf("opened again: %v", err)
			}
		})
	}
}

func TestFullDiskRefusesEveryWrite(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(raftlog.Store) error{
		"delete":     func(s raftlog.Store) error { return s.DeleteRange(1, 1) },
		"set":        func(s raftlog.Store) error { return s.Set([]byte("vote"), nil) },
		"set number": func(s raftlog.Store) error { return s.SetUint64([]byte("term"), 1) },
	} {
		var faults faultlog.Faults
		s := open(t, t.TempDir(), &faults)
		faults.FillDisk(true)
		if err := write(s); !errors.Is(err, faultlog.ErrDiskFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	var faults faultlog.Faults
	s := open(t, t.TempDir(), &faults)
	if err := s.StoreLog(entry(1)); err != nil {
		t.Fatal(err)
	}
	faults.FailRead(2)
	for i, want := range []error{nil, faultlog.ErrInjected, nil} {
		if err := s.GetLog(1, new(raft.Log)); !errors.Is(err, want) {
			t.Errorf("read %d: %v", i+1, err)
		}
	}
}

// TestDelay checks that a slow disk takes time in the bubble.
func TestDelay(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var faults faultlog.Faults
		s := open(t, dir, &faults)
		faults.Delay(time.Hour)
		start := time.Now()
		if err := s.StoreLogs([]*raft.Log{entry(1), entry(2)}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("it took %v", took)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
