package raftlog

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// afterCrash opens what is on disk while s is still open, as the next process
// would find it after this one has died; harm may change the files first.
func afterCrash(t *testing.T, s Store, harm func(dir string)) Store {
	t.Helper()
	from := s.(located)
	to := copyOfAMoment(t, from.directory())
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

// copyOfAMoment copies a directory as it was at one moment. A store may flush behind
// our back, and of what it changes during a copy some files would be from before and
// some from after, as no crash leaves them; such a copy is thrown away.
func copyOfAMoment(t *testing.T, dir string) string {
	t.Helper()
	var err error
	for range 1000 {
		to := t.TempDir()
		var before map[string]string
		if before, err = listing(dir); err == nil {
			err = os.CopyFS(to, os.DirFS(dir))
		}
		after, gone := listing(dir)
		if err == nil && gone == nil && maps.Equal(before, after) {
			return to
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the files of %s never rest: %v", dir, err)
	return ""
}

// listing tells for every file under dir what changes when it is written.
func listing(dir string) (map[string]string, error) {
	files := map[string]string{}
	return files, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files[path] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
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
