package raftlog

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// afterCrash opens what is on disk while s is still open, as the next process
// would find it after this one has died; harm may change the files first.
func afterCrash(t *testing.T, s Store, harm func(dir string)) Store {
	t.Helper()
	from, to := s.(located), t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from.directory())); err != nil {
		t.Fatal(err)
	}
	if harm != nil {
		harm(to)
	}
	again, err := (&Factory{SegmentBytes: MinSegmentBytes, Logger: hclog.NewNullLogger()}).Open(to, from.kind())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() }) // nothing is asked of it any more
	return again
}

// What a method that returned nil has changed is on disk, without a Close.
func testCrash(t *testing.T, open func() Store) {
	s := open()
	for i := uint64(1); i <= 60; i++ {
		store(t, s, logs(i, i, 1))
		if i%20 == 0 {
			wantLogs(t, afterCrash(t, s, nil), logs(1, i, 1))
		}
	}
	remove(t, s, 55, 60)
	wantLogs(t, afterCrash(t, s, nil), logs(1, 54, 1))
	store(t, s, logs(55, 57, 2))
	remove(t, s, 1, 30)
	wantLogs(t, afterCrash(t, s, nil), append(logs(31, 54, 1), logs(55, 57, 2)...))
}

// The process dies while it writes: the last batch is torn, and was never
// acknowledged. It is dropped, and the log goes on behind the one before.
func TestWALDropsATornBatch(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), WAL)
	store(t, s, logs(1, 50, 1)) // batches of five
	again := afterCrash(t, s, func(dir string) { tear(t, dir) })
	wantLogs(t, again, logs(1, 45, 1))
	store(t, again, logs(46, 80, 2))
	wantLogs(t, again, append(logs(1, 45, 1), logs(46, 80, 2)...))
}

// tear blanks some bytes in the middle of the last batch.
func tear(t *testing.T, dir string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	newest := segments[len(segments)-1]
	data, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(data, "\x00"))
	clear(data[end-entryBytes : end-entryBytes+100])
	if err := os.WriteFile(newest, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
