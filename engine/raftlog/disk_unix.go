//go:build linux || darwin || freebsd

package raftlog

import (
	"io/fs"
	"syscall"
)

// onDisk is what a file really takes: the libraries map files that are larger
// than what is in them.
func onDisk(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}

// freeBytes is how much may still be written on dir's disk.
func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
