package raftlog

import (
	"errors"
	"os"

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
type prepared struct{ walDisk }

func (d prepared) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := d.walDisk.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	return &preparedFile{WritableFile: f, disk: d, size: int64(size)}, nil
}

// OpenWriter opens a file with a tail. What is behind that is zeros, or of a write that
// was never acknowledged.
func (d prepared) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := d.walDisk.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	out := &preparedFile{WritableFile: f, disk: d, dir: dir}
	if file, ok := f.(statted); ok {
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
	disk  walDisk
	size  int64 // that was reserved
	ready int64 // before it there is nothing to note any more
	named bool  // a sync of the whole file has made it findable
	// dir is whose names the first sync makes durable, too, of a file that was there: who
	// made it may have died before its own first sync, with which the library does that.
	dir string
}

// statted is a file that knows its size.
type statted interface{ Stat() (os.FileInfo, error) }

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
	if f.named {
		return f.disk.SyncData(f.WritableFile)
	}
	err := f.WritableFile.Sync()
	if err == nil && f.dir != "" {
		err = f.disk.SyncDir(f.dir)
	}
	f.named = err == nil
	return err
}
