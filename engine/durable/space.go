package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/corvo/corvo/api"
)

const (
	// LowSpace is the free space, in bytes, below which a write that fails is said to
	// fail because the disk is full: log stores make files of up to 48 MiB ahead.
	LowSpace = 64 << 20
	// StartSpace is the free space, in bytes, that a start needs: a segment of the log
	// and what the store writes while it is opened.
	StartSpace = 32 << 20
)

// ErrFull is the cause of errors for want of room.
var ErrFull = errors.New("disk full")

// FreeSpace is how many bytes this process may still write below dir, which need
// not be there yet. The error is errors.ErrUnsupported where the system does not
// tell.
func FreeSpace(dir string) (int64, error) {
	for {
		free, err := freeSpace(dir)
		if err == nil {
			return free, nil
		}
		above := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || above == dir {
			return 0, fmt.Errorf("free space under %s: %w", dir, err)
		}
		dir = above
	}
}

// CheckSpace refuses a start below dir with less than StartSpace of free disk. A
// store that is opened on a full disk tries to write for ever.
func CheckSpace(dir string) error {
	switch free, err := FreeSpace(dir); {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return err
	case free < StartSpace:
		return api.Errorf(api.Unhealthy, "%w: %s free under %s, a start needs %s; make room and start again", ErrFull, mib(free), dir, mib(StartSpace))
	}
	return nil
}

// Explain says that the disk is full where that is why a write below dir has
// failed. Log stores answer the writes that follow with errors of their own.
func Explain(err error, dir string) error {
	if err == nil || errors.Is(err, ErrFull) {
		return err
	}
	free, unknown := FreeSpace(dir)
	if full := errors.Is(err, syscall.ENOSPC); !full && (unknown != nil || free >= LowSpace) {
		return err
	}
	return fmt.Errorf("%w: %s free under %s; make room and restart the node (%w)", ErrFull, mib(free), dir, err)
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
