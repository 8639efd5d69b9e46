package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// LowSpace is the free space, in bytes, below which Explain blames a full disk for a
// failed write, because log stores preallocate files of up to 48 MiB.
const LowSpace = 64 << 20

// ErrFull is the cause of errors that come from a full disk.
var ErrFull = errors.New("disk full")

// FreeSpace returns the number of bytes that this process may still write below dir, which need not exist
// yet. The error is errors.ErrUnsupported if the system does not report free space.
func FreeSpace(dir string) (int64, error) {
	free, _, err := Space(dir)
	return free, err
}

// Space returns the number of bytes that this process may still write below dir, as FreeSpace does, and the number
// that would be free on an empty disk.
func Space(dir string) (free, total int64, err error) {
	for {
		free, total, err := space(dir)
		if err == nil {
			return free, total, nil
		}
		above := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || above == dir {
			return 0, 0, fmt.Errorf("free space under %s: %w", dir, err)
		}
		dir = above
	}
}

// Explain adds ErrFull to the error of a write below dir if the disk is full. It also looks at the free
// space, because after a full disk a log store answers further writes with errors of its own.
func Explain(err error, dir string) error {
	if err == nil || errors.Is(err, ErrFull) {
		return err
	}
	free, unknown := FreeSpace(dir)
	if full := errors.Is(err, syscall.ENOSPC); !full && (unknown != nil || free >= LowSpace) {
		return err
	}
	return fmt.Errorf("%w: %s free under %s; make room and restart the node (%w)", ErrFull, MiB(free), dir, err)
}

// MiB prints a number of bytes in mebibytes.
func MiB(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
