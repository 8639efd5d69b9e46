//go:build unix

package raftlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/corvo/corvo/api"
)

// lockDir takes the directory for this Store until the Closer is closed or the
// process ends.
func lockDir(dir string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the log directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = api.Errorf(api.Conflict, "the log in %s is in use: stop the other process first", dir)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
