//go:build linux || darwin || freebsd

package server

import (
	"fmt"
	"syscall"
)

// cpuTime returns the processor time that this process has used since its start, in nanoseconds: in user mode
// and in the kernel.
func cpuTime() (user, sys int64, err error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0, fmt.Errorf("processor time: %w", err)
	}
	return u.Utime.Nano(), u.Stime.Nano(), nil
}
