//go:build !(linux || darwin || freebsd)

package server

// cpuTime returns zeros, because this system does not report processor time.
func cpuTime() (user, sys int64, err error) { return 0, 0, nil }
