package durable

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestSpaceOfADirectoryThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := FreeSpace(dir); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if free, err := FreeSpace(filepath.Join(dir, "a", "b")); err != nil || free == 0 {
		t.Errorf("%d, %v", free, err)
	}
	if free, total, err := Space(dir); err != nil || free <= 0 || total < free {
		t.Errorf("%d of %d, %v", free, total, err)
	}
}

func TestExplainNamesAFullDisk(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("append: %w", syscall.ENOSPC)
	if err := Explain(full, t.TempDir()); !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "disk full: ") {
		t.Errorf("%v", err)
	}
	if err := Explain(nil, t.TempDir()); err != nil {
		t.Error(err)
	}
	other := errors.New("segment is sealed")
	free, err := FreeSpace(t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	if got := Explain(other, t.TempDir()); free >= 2*LowSpace && got != other {
		t.Errorf("with %d bytes free: %v", free, got)
	}
}
