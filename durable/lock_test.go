//go:build unix

package durable

import (
	"errors"
	"testing"
)

// Two processes that write to one directory would destroy each other's data.
func TestADirectoryIsLockedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a second lock: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(dir)
	if err != nil {
		t.Fatalf("after the first was given back: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir + "/missing"); err == nil || errors.Is(err, ErrInUse) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
