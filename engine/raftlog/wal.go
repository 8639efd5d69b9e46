package raftlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/durable"
)

// walStore is hashicorp/raft-wal with its edges taken off. Left to itself the
// library leaves its metadata store open when it is closed, and opening it again
// in the same process waits for ever, as does opening a directory in use; it
// serves entries of the tail segment that were deleted; a read may find its file
// closed by a deletion that began meanwhile; and a tail that was cut short cannot
// be read once the log is opened again.
type walStore struct {
	*wal.WAL
	meta *metadb.BoltMetaDB
	lock io.Closer
	dir  string
	// cutting is held to delete, and shared to read.
	cutting sync.RWMutex
}

// filer opens segments. One that was the tail when its end was deleted counts as
// sealed but has no index at its end: what a tail is recovered by rebuilds it.
type filer struct{ *segment.Filer }

func (f filer) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	if info.IndexStart == 0 {
		return f.RecoverTail(info)
	}
	return f.Filer.Open(info)
}

func openWAL(f *Factory, dir string) (_ Store, err error) {
	s := &walStore{meta: new(metadb.BoltMetaDB), dir: dir}
	if s.lock, err = durable.Lock(dir); err != nil {
		if errors.Is(err, durable.ErrInUse) {
			return nil, api.Errorf(api.Conflict, "the log in %s is %w", dir, durable.ErrInUse)
		}
		return nil, fmt.Errorf("the log in %s: %w", dir, err)
	}
	s.WAL, err = wal.Open(dir,
		wal.WithMetaStore(s.meta),
		wal.WithSegmentFiler(filer{segment.NewFiler(dir, walfs.New())}),
		wal.WithSegmentSize(f.segmentBytes()),
		wal.WithLogger(f.logger()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the log in %s: %w", dir, err), s.meta.Close(), s.lock.Close())
	}
	return s, nil
}

func (s *walStore) GetLog(index uint64, log *raft.Log) error {
	s.cutting.RLock()
	defer s.cutting.RUnlock()
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	if index == 0 || index < first || index > last {
		return raft.ErrLogNotFound
	}
	return s.WAL.GetLog(index, log)
}

func (s *walStore) DeleteRange(from, to uint64) error {
	s.cutting.Lock()
	defer s.cutting.Unlock()
	return s.WAL.DeleteRange(from, to)
}

func (s *walStore) Size() (int64, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	var total int64
	for _, f := range files {
		if filepath.Ext(f.Name()) != ".wal" {
			continue
		}
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // a segment cut since the directory was read
		}
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}

func (s *walStore) Close() error {
	return errors.Join(s.WAL.Close(), s.meta.Close(), s.lock.Close())
}
