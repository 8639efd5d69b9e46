package raftlog

import (
	"os"
	"path/filepath"
	"testing"
)

// damageOldest overwrites the header of the oldest segment.
func damageOldest(t *testing.T, dir string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(segments) < 2 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	f, err := os.OpenFile(segments[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 64), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
