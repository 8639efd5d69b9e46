package raftlog

import (
	"os"
	"syscall"

	"github.com/hashicorp/raft-wal/types"
)

func (systemDisk) SyncData(f types.WritableFile) error {
	file, ok := f.(syscall.Conn)
	if !ok {
		return f.Sync()
	}
	raw, err := file.SyscallConn()
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
