package raftlog

import (
	"os"
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
	again, err := openWith(&Factory{SegmentBytes: MinSegmentBytes, Logger: hclog.NewNullLogger()}, to, from.ofKind())
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
