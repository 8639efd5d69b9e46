//go:build linux || darwin

package front

import "syscall"

// openFiles returns the number of files that this process may have open. Go's runtime raised the soft limit
// to the hard one when the process started.
func openFiles() (limit int64, ok bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return int64(min(l.Cur, 1<<62)), true
}
