//go:build linux || darwin || freebsd

package raftlog

import (
	"io/fs"
	"syscall"
)

// onDisk returns the space that a file takes on the disk, and not its length, because the libraries map files
// that are longer than their content.
func onDisk(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}

// freeBytes returns the bytes that this process may still write to dir's disk.
func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
