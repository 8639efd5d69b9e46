//go:build !linux && !darwin && !freebsd

package raftlog

import (
	"io/fs"
	"math"
)

// onDisk returns the file's nominal size, because these systems do not report the space on disk.
func onDisk(info fs.FileInfo) int64 { return info.Size() }

// freeBytes reports no limit, because these systems do not report free space. The library's writes then fail
// on a full disk.
func freeBytes(string) (int64, error) { return math.MaxInt64, nil }
