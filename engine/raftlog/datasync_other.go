//go:build !linux

package raftlog

import "github.com/hashicorp/raft-wal/types"

// SyncData is a sync of the whole file where there is no other.
func (systemDisk) SyncData(f types.WritableFile) error { return f.Sync() }
