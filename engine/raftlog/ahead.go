package raftlog

import (
	"errors"
	"os"

	"github.com/hashicorp/raft-wal/types"
)

const (
	// aheadBytes is the number of zeros written after the end of a segment's content.
	aheadBytes = 256 << 10
	// A write of largeWrite bytes or more is not followed by zeros, because they would cost more than they
	// save.
	largeWrite = 32 << 10
)

// prepared is a file system that fills segments with zeros ahead of the writes.
//
// The library only reserves the segments' space. The file system records where reserved space lies and marks
// it as not yet written. So each write there changes the file's metadata, and syncing the write commits the
// metadata to the file system's journal. That commit includes the changes of all other files, and the files
// of the view and the store grow at the same time. A write over zeros changes no metadata, so syncing it only
// writes the data. The price is that the log's bytes are written twice if the writes are small; small writes
// are bound by their syncs and not by the disk's throughput.
type prepared struct{ walDisk }

func (d prepared) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := d.walDisk.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	return &preparedFile{WritableFile: f, disk: d, size: int64(size)}, nil
}

// OpenWriter opens the segment that is still being written. The bytes after its last acknowledged write are zeros,
// or belong to a write that was never acknowledged.
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

// preparedFile is a segment that is written from its start to its end.
type preparedFile struct {
	types.WritableFile
	disk  walDisk
	size  int64 // the reserved size
	ready int64 // a write that ends at or below this offset changes no metadata; the write under way is included
	named bool  // a sync of the whole file succeeded, so its name is durable
	// dir is set for a reopened file. The library syncs the directory only together with the first sync of a
	// new file, and the process that created the file may have died before that sync. So the first Sync of a
	// reopened file syncs dir.
	dir string
}

// statted is a file that knows its size.
type statted interface{ Stat() (os.FileInfo, error) }

// zeros is the block that is written ahead.
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

// Sync makes the written content durable, and the first time also the file's name.
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
