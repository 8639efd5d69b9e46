//go:build linux || darwin || freebsd

package durable

import "syscall"

// space does not count the blocks that are reserved for the superuser.
func space(dir string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	used := int64(s.Blocks) - int64(s.Bfree)
	free = int64(s.Bavail) * int64(s.Bsize)
	return free, free + used*int64(s.Bsize), nil
}
