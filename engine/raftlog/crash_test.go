package raftlog

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// afterCrash opens a copy of the files while s is still open, as the next process would after this one has
// crashed. harm may change the files first.
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
	t.Cleanup(func() { _ = again.Close() }) // the test needs nothing more of it
	return again
}

// copyOfAMoment copies a directory as it was at one moment. A store may flush in the background, and some
// files of a copy could then be from before the flush and some from after it, which no crash causes. If the
// directory still equals the copy afterwards, the copy is consistent.
func copyOfAMoment(t *testing.T, dir string) string {
	t.Helper()
	var err error
	for range 1000 {
		to := t.TempDir()
		if err = os.CopyFS(to, os.DirFS(dir)); err == nil {
			if err = sameFiles(dir, to); err == nil {
				return to
			}
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the files of %s never rest: %v", dir, err)
	return ""
}

// sameFiles returns an error that describes how the files of two directories differ.
func sameFiles(a, b string) error {
	var counted int
	err := filepath.WalkDir(a, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		counted++
		below, err := filepath.Rel(a, path)
		if err != nil {
			return err
		}
		one, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		other, err := os.ReadFile(filepath.Join(b, below))
		if err == nil && !bytes.Equal(one, other) {
			err = fmt.Errorf("%s is written to", below)
		}
		return err
	})
	if err != nil {
		return err
	}
	return filepath.WalkDir(b, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if counted--; counted < 0 {
				err = fmt.Errorf("%s is gone", d.Name())
			}
		}
		return err
	})
}

// testCrash checks that every acknowledged change is on disk without a Close.
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
