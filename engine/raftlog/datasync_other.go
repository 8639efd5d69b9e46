//go:build !linux

package raftlog

// syncData is a sync of the whole file where there is no other.
func syncData(f realFile) error { return f.Sync() }
