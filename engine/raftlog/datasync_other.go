//go:build !linux

package raftlog

import "github.com/hashicorp/raft-wal/types"

// SyncData syncs the whole file, because these systems cannot sync only its content.
func (systemDisk) SyncData(f types.WritableFile) error { return f.Sync() }
