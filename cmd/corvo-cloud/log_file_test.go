package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestTheLogFileIsBounded checks that the log rotates at its bound, keeps one older file, and continues the
// file of the last start.
func TestTheLogFileIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, old := filepath.Join(dir, "cloud.log"), filepath.Join(dir, "cloud.log.1")
	for start := range 2 {
		r, err := openLog(path, old, 10)
		if err != nil {
			t.Fatal(err)
		}
		lines := []string{"1234\n", "5678\n"} // exactly the bound
		if start == 1 {
			lines = []string{"abcd\n", "longer than the bound\n", "end\n"}
		}
		for _, line := range lines {
			if n, err := io.WriteString(r, line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		if start == 0 {
			expect(t, path, "1234\n5678\n")
			if _, err := os.Stat(old); err == nil {
				t.Error("the file was cut at the bound, not above it")
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(r, "late\n"); err == nil {
			t.Error("a closed log takes lines")
		}
	}
	expect(t, old, "longer than the bound\n")
	expect(t, path, "end\n")
}

func expect(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}
