package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/corvo/corvo/durable"
)

// walStore is hashicorp/raft-wal with workarounds for its defects. The library on its own never closes its
// metadata store, so that opening the log again in the same process waits for ever, as does opening a log in
// use. It returns deleted entries of the tail segment. A read may find its file closed by a concurrent
// deletion. A tail that was truncated cannot be read once the log is opened again. A deletion right after the
// append that fills a segment destroys the log. After a crash before a full segment was replaced, no append
// ever succeeds again. And it continues after a failed write, with offsets of entries that do not exist.
type walStore struct {
	*logDir // its mark is the newest acknowledged index
	*wal.WAL
	meta  *metadata
	votes *mark // the newest acknowledged write number of a stable value
	// deleteMu is locked to delete, and shared to read.
	deleteMu sync.RWMutex

	writeMu sync.Mutex // held for every write; guards failed and meta.newest
	failed  error
}

// filer opens segments. A segment has no index at its end, or none that can be trusted, if its end was
// deleted while it was the tail or if it was the tail in a crash. The library nevertheless takes such a
// segment for a complete one. Recovering it as a tail rebuilds the index.
//
// The library accepts any codec, but records its own in each new segment, and refuses the segment when the
// log is opened again. So filer sets the right codec in segments, and metadata sets it in the library's
// records of them.
type filer struct{ *segment.Filer }

func (f filer) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	info.Codec = recordCodec{}.ID()
	return f.Filer.Create(info)
}

func (f filer) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	info.Codec = recordCodec{}.ID()
	return f.Filer.RecoverTail(info)
}

func (f filer) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	info.Codec = recordCodec{}.ID()
	if info.IndexStart == 0 {
		return f.RecoverTail(info)
	}
	return f.Filer.Open(info)
}

// metadata wraps the library's metadata store, a bolt file that is checked before it is opened.
type metadata struct {
	metadb.BoltMetaDB
	filer        filer
	segmentBytes int
	newest       uint64 // the highest write number of a stable value
}

func (m *metadata) Load(dir string) (state types.PersistentState, err error) {
	err = checkBolt(filepath.Join(dir, metadb.FileName), func(bucket string, value []byte) error {
		if bucket != metadb.StableBucket {
			return nil
		}
		number, _, err := checkRecord(value)
		m.newest = max(m.newest, number)
		return err
	})
	if err != nil {
		return state, err
	}
	err = guarded(func() (err error) {
		state, err = m.BoltMetaDB.Load(dir)
		return err
	})
	for i := range state.Segments {
		state.Segments[i].Codec = recordCodec{}.ID()
	}
	if err != nil {
		return state, err
	}
	return m.finishRotation(state)
}

// If a crash has left the tail with a complete or torn index at its end, finishRotation starts the next
// segment. The library refuses to append to such a tail, and starts a segment only after an append. If
// nothing of the tail was ever committed, the new segment replaces the tail. The index is not trusted (see
// filer).
func (m *metadata) finishRotation(state types.PersistentState) (types.PersistentState, error) {
	before := len(state.Segments) - 1
	if before < 0 || !state.Segments[before].SealTime.IsZero() {
		return state, nil
	}
	tail := state.Segments[before]
	file, err := m.filer.RecoverTail(tail)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil // the library creates it
	}
	if err != nil {
		return state, err
	}
	full, _, err := file.Sealed()
	last := file.LastIndex()
	if err = errors.Join(err, file.Close()); err != nil || !full {
		return state, err
	}
	base := tail.BaseIndex
	if last == 0 {
		state.Segments = state.Segments[:before]
	} else {
		base = last + 1
		tail.SealTime, tail.MaxIndex = time.Now(), last
		state.Segments[before] = tail
	}
	state.Segments = append(state.Segments, types.SegmentInfo{
		ID: state.NextSegmentID, BaseIndex: base, MinIndex: base, CreateTime: time.Now(),
		SizeLimit: uint32(m.segmentBytes), Codec: recordCodec{}.ID(),
	})
	state.NextSegmentID++
	return state, m.CommitState(state)
}

// walDisk is the file system for the library's segments. It can also sync the names in a directory, and sync
// the content of a file without the file system's metadata.
type walDisk interface {
	types.VFS
	SyncDir(dir string) error
	SyncData(f types.WritableFile) error
}

type systemDisk struct{ *walfs.FS }

func (systemDisk) SyncDir(dir string) error { return durable.SyncDir(dir) }

func openWAL(f *Factory, h *logDir) (_ Store, err error) {
	files := f.files
	if files == nil {
		files = systemDisk{walfs.New()}
	}
	kept := types.VFS(prepared{files})
	if f.NoSync {
		kept = unsynced{files}
	}
	segments := filer{segment.NewFiler(h.dir, kept)}
	s := &walStore{logDir: h, meta: &metadata{filer: segments, segmentBytes: f.segmentBytes()}}
	if s.votes, err = openMark(h.dir, voteFile, false); err != nil {
		return nil, err
	}
	s.WAL, err = wal.Open(h.dir,
		wal.WithMetaStore(s.meta),
		wal.WithSegmentFiler(segments),
		wal.WithSegmentSize(f.segmentBytes()),
		wal.WithCodec(recordCodec{}),
		wal.WithLogger(f.logger()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the log in %s: %w", h.dir, err), s.meta.Close(), s.votes.Close())
	}
	last, err := s.LastIndex()
	if err == nil {
		err = errors.Join(h.mark.reached(last), s.votes.reached(s.meta.newest))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the log in %s: %w", h.dir, err), s.WAL.Close(), s.meta.Close(), s.votes.Close())
	}
	return s, nil
}

func (s *walStore) GetLog(index uint64, log *raft.Log) error {
	s.deleteMu.RLock()
	defer s.deleteMu.RUnlock()
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
	if err := s.WAL.GetLog(index, log); err != nil {
		return fmt.Errorf("entry %d of the log in %s: %w", index, s.dir, err)
	}
	if log.Index != index {
		return fmt.Errorf("entry %d is in the place of entry %d of the log in %s: %w", log.Index, index, s.dir, errDamaged)
	}
	return nil
}

func (s *walStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs checks for gaps itself, because write would take the library's refusal for a failed write, after
// which the log accepts no more.
func (s *walStore) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	for _, l := range logs {
		if last != 0 && l.Index != last+1 || l.Index == 0 {
			return errGap(l.Index, last)
		}
		last = l.Index
	}
	return s.write(func() error {
		if err := s.WAL.StoreLogs(logs); err != nil {
			return err
		}
		return s.mark.raise(last)
	})
}

func (s *walStore) DeleteRange(from, to uint64) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	from, to = max(from, first), min(to, last)
	if last == 0 || from > to {
		return nil
	}
	if from != first && to != last {
		return errMiddle(from, to, indexRange{first, last})
	}
	return s.write(func() error {
		left := last
		switch {
		case from == first && to == last:
			left = 0
		case to == last:
			left = from - 1
		}
		if err := s.mark.lower(left); err != nil {
			return err
		}
		s.awaitRotation(last)
		s.deleteMu.Lock()
		defer s.deleteMu.Unlock()
		return s.WAL.DeleteRange(from, to)
	})
}

// awaitRotation waits until the segment after a full one exists. The library creates it on a goroutine of its
// own. An append waits for that goroutine, but a deletion does not: if the deletion creates a segment first,
// the goroutine seals that segment while it is empty, and the log continues from index 1. So awaitRotation
// makes an append that must fail: the append waits for the goroutine and is then refused for its gap before
// anything is written.
func (s *walStore) awaitRotation(last uint64) {
	_ = s.WAL.StoreLogs([]*raft.Log{{Index: last + 2}})
}

func (s *walStore) Set(name, value []byte) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	return s.write(func() error {
		if err := s.WAL.Set(name, stableRecord(s.meta.newest+1, value)); err != nil {
			return err
		}
		s.meta.newest++
		return s.votes.raise(s.meta.newest)
	})
}

func (s *walStore) Get(name []byte) ([]byte, error) {
	record, err := s.WAL.Get(name)
	if err != nil {
		return nil, err
	}
	return stableValue(name, record)
}

func (s *walStore) SetUint64(name []byte, value uint64) error {
	return s.Set(name, binary.BigEndian.AppendUint64(nil, value))
}

func (s *walStore) GetUint64(name []byte) (uint64, error) {
	return number(s, name)
}

// write runs f unless an earlier write has failed, and remembers its error.
func (s *walStore) write(f func() error) error {
	if s.failed != nil {
		return errFailed(s.failed)
	}
	s.failed = f()
	return s.failed
}

// Size includes the metadata, which stays at some tens of kilobytes.
func (s *walStore) Size() (int64, error) { return s.size() }

func (s *walStore) Close() error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.failed == nil {
		s.failed = errClosed
	}
	return errors.Join(s.WAL.Close(), s.meta.Close(), s.votes.Close(), s.logDir.close())
}

// unsynced is a disk that leaves the syncs of file contents to the operating system. The names of segments
// are still durable, through a transaction of the metadata.
type unsynced struct{ types.VFS }

func (u unsynced) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := u.VFS.Create(dir, name, size)
	return unsyncedFile{f}, err
}

func (u unsynced) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := u.VFS.OpenWriter(dir, name)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ types.WritableFile }

func (unsyncedFile) Sync() error { return nil }
