package raftlog

import (
	"errors"
	"os"
	"syscall"

	"github.com/hashicorp/raft-wal/types"
)

const (
	// aheadBytes is how far before its end a segment is filled with zeros.
	aheadBytes = 256 << 10
	// largeWrite is a write that changes so much of a file that the zeros would cost
	// more than they save.
	largeWrite = 32 << 10
)

// prepared is a disk whose segments are filled with zeros ahead of what is written.
//
// The library has their space reserved. What a file system notes of reserved space is
// where it is, and that there is nothing in it yet; so each write there changes its
// notes, and to sync the write is to commit them to its journal, together with all that
// everybody else has changed: the view's and the store's files grow at the same time. A
// write over zeros changes no notes, and to sync it is to write it. It costs that the
// log's bytes are written twice, where writes are small; those are bound by their syncs
// and not by the disk's throughput.
type prepared struct{ types.VFS }

func (d prepared) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := d.VFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	return &preparedFile{WritableFile: f, size: int64(size)}, nil
}

// OpenWriter opens a file with a tail. What is behind that is zeros, or of a write that
// was never acknowledged.
func (d prepared) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := d.VFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	out := &preparedFile{WritableFile: f}
	if file, ok := f.(*os.File); ok {
		info, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		out.size = info.Size()
	}
	return out, nil
}

// preparedFile is a segment that is written to from its beginning to its end.
type preparedFile struct {
	types.WritableFile
	size  int64 // that was reserved
	ready int64 // before it there is nothing to note any more
	named bool  // a sync of the whole file has made it findable
}

// realFile is a file of the operating system's.
type realFile interface {
	syscall.Conn
	Sync() error
}

// zeros is what is written ahead.
var zeros [aheadBytes]byte

func (f *preparedFile) WriteAt(p []byte, at int64) (int, error) {
	if end := at + int64(len(p)); end > f.ready {
		f.ready = end
		if more := min(f.size-end, aheadBytes); len(p) < largeWrite && more > 0 {
			if _, err := f.WritableFile.WriteAt(zeros[:more], end); err != nil {
				return 0, err
			}
			f.ready += more
		}
	}
	return f.WritableFile.WriteAt(p, at)
}

// Sync makes durable what was written, and the first time also that there is such a
// file.
func (f *preparedFile) Sync() error {
	if file, ok := f.WritableFile.(realFile); ok && f.named {
		return syncData(file)
	}
	f.named = true
	return f.WritableFile.Sync()
}
