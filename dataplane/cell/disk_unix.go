//go:build linux || darwin || freebsd

package cell

import "syscall"

// freeDisk leaves out what is reserved for the superuser.
func freeDisk(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
