//go:build unix

package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Lock locks a directory, which must exist, until the Closer is closed or the process ends, however it ends. It
// returns ErrInUse while another holds the lock, even another part of this process.
func Lock(dir string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(err, f.Close())
	}
	return heldLock{f}, nil
}

// heldLock is an open file with a lock. Close unlocks the file before it closes it, because a process that is
// just being forked has the file open until it runs another program, and would keep the lock for that time.
type heldLock struct{ file *os.File }

func (l heldLock) Close() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
