//go:build !(linux || darwin || freebsd)

package server

// cpuTime returns zeros, because it is implemented only for Linux, macOS and FreeBSD.
func cpuTime() (user, sys int64, err error) { return 0, 0, nil }
