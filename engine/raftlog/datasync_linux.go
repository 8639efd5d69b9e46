package raftlog

import (
	"os"
	"syscall"
)

// syncData makes durable what was written to a file, and what is needed to find it
// there, but not when that was.
func syncData(f realFile) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		for failed = syscall.EINTR; failed == syscall.EINTR; {
			failed = syscall.Fdatasync(int(fd))
		}
	}); err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", failed)
}
