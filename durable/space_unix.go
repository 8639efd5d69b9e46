//go:build linux || darwin || freebsd

package durable

import "syscall"

// freeSpace does not count the blocks that are reserved for the superuser.
func freeSpace(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
