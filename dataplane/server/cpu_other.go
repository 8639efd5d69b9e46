//go:build !(linux || darwin || freebsd)

package server

// cpuTime is not known on this system.
func cpuTime() (user, sys int64, err error) { return 0, 0, nil }
