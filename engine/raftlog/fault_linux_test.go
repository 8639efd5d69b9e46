package raftlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

var errDisk = errors.New("the disk has had enough")

// countdown fails every call from its n-th on.
type countdown struct {
	left  atomic.Int64
	armed atomic.Bool
}

func (c *countdown) strike() error {
	if c.armed.Load() && c.left.Add(-1) < 0 {
		return errDisk
	}
	return nil
}

// failing is a disk for raft-wal on which writes or syncs fail.
type failing struct {
	walDisk
	*countdown
	sync bool
}

func (f failing) Create(dir, name string, size uint64) (types.WritableFile, error) {
	file, err := f.walDisk.Create(dir, name, size)
	return failingFile{file, f}, err
}

func (f failing) OpenWriter(dir, name string) (types.WritableFile, error) {
	file, err := f.walDisk.OpenWriter(dir, name)
	return failingFile{file, f}, err
}

// SyncData fails when Sync does.
func (f failing) SyncData(file types.WritableFile) error { return file.Sync() }

type failingFile struct {
	types.WritableFile
	disk failing
}

// WriteAt writes half of p before it fails.
func (f failingFile) WriteAt(p []byte, at int64) (int, error) {
	if !f.disk.sync {
		if err := f.disk.strike(); err != nil {
			n, _ := f.WritableFile.WriteAt(p[:len(p)/2], at)
			return n, err
		}
	}
	return f.WritableFile.WriteAt(p, at)
}

func (f failingFile) Sync() error {
	if f.disk.sync {
		if err := f.disk.strike(); err != nil {
			return err
		}
	}
	return f.WritableFile.Sync()
}

func failingPebble(c *countdown, sync bool) vfs.FS {
	return errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if sync {
				return c.strike()
			}
		case errorfs.OpFileWrite, errorfs.OpFileWriteAt:
			if !sync {
				return c.strike()
			}
		}
		return nil
	}))
}

// TestFailingDisk checks that a write that fails on disk returns an error, that all later writes fail, and
// that every acknowledged entry is there when the log is opened again.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{WAL, Pebble} {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sync %v", kind, sync), func(t *testing.T) {
				t.Parallel()
				for n := range int64(12) {
					c := &countdown{}
					c.left.Store(n)
					f := Factory{SegmentBytes: MinSegmentBytes, Logger: hclog.NewNullLogger()}
					f.files, f.disk = failing{systemDisk{walfs.New()}, c, sync}, failingPebble(c, sync)
					untilItFails(t, f, kind, t.TempDir(), func() { c.armed.Store(true) }, func() { c.armed.Store(false) })
				}
			})
		}
	}
}

// untilItFails appends until the disk fails, and then opens the log again on a working disk.
func untilItFails(t *testing.T, f Factory, kind Kind, dir string, breaks, mended func()) {
	t.Helper()
	s, err := f.Open(dir, kind)
	if err != nil {
		t.Fatal(err)
	}
	store(t, s, logs(1, 5, 1))
	breaks()
	acknowledged := uint64(5)
	for ; acknowledged < 1_000_000; acknowledged += 2 {
		if err = s.StoreLogs(logs(acknowledged+1, acknowledged+2, 1)); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("every write worked on a failing disk")
	}
	if last := lastOf(t, s); last != acknowledged {
		t.Errorf("a failed write is served: the log ends at %d, %d was acknowledged", last, acknowledged)
	}
	mended()
	failedOnce(t, s)
	_ = s.Close() // may fail because of the disk
	s, err = openWith(&f, dir, kind)
	if err != nil {
		t.Fatalf("again, after %v: %v", acknowledged, err)
	}
	last := lastOf(t, s)
	if last < acknowledged || last > acknowledged+2 {
		t.Errorf("the log ends at %d, %d was acknowledged", last, acknowledged)
	}
	for i := uint64(1); i <= last; i++ {
		var got raft.Log
		if err := s.GetLog(i, &got); err != nil || string(got.Data) != string(logAt(i, 1).Data) {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
	store(t, s, logs(last+1, last+3, 2))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullDisk fills the disk and frees space again. Each kind has a small disk of its own, in memory.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			resize := tinyDisk(t, dir, 96<<20)
			f := Factory{SegmentBytes: MinSegmentBytes, NoSync: true, Logger: hclog.NewNullLogger()}
			full := func() {
				free, err := freeBytes(dir)
				if err == nil {
					keep := 1<<20 + map[Kind]int64{Badger: badgerReserve, Pebble: pebbleReserve}[Kind(kind)]
					err = os.WriteFile(filepath.Join(dir, "filler"), make([]byte, max(0, free-keep)), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			untilItFails(t, f, Kind(kind), filepath.Join(dir, "log"), full, func() { resize(512 << 20) })
		})
	}
}

// tinyDisk mounts a file system in memory, if that is permitted.
func tinyDisk(t *testing.T, dir string, bytes int) (resize func(bytes int)) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a small disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return func(bytes int) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", bytes)); err != nil {
			t.Error(err)
		}
	}
}

// TestPebbleOnACrashingMachine crashes the machine, so that all unsynced writes, or any part of them, are
// lost.
func TestPebbleOnACrashingMachine(t *testing.T) {
	t.Parallel()
	for _, kept := range []int{0, 50, 100} {
		type crash struct {
			disk         *vfs.MemFS
			mark         []byte
			acknowledged []*raft.Log
		}
		var crashes []crash
		dir, disk := t.TempDir(), vfs.NewCrashableMem()
		f := Factory{Logger: hclog.NewNullLogger(), disk: disk}
		s, err := f.Open(dir, Pebble)
		if err != nil {
			t.Fatal(err)
		}
		var all []*raft.Log
		random := rand.New(rand.NewPCG(1, uint64(kept)))
		for term := uint64(1); term <= 40; term++ {
			if last := uint64(len(all)); term%5 == 0 {
				remove(t, s, last-2, last)
				all = all[:last-3]
			}
			more := logs(uint64(len(all))+1, uint64(len(all))+1+random.Uint64N(8), term)
			store(t, s, more)
			all = append(all[:len(all):len(all)], more...)
			mark, err := os.ReadFile(filepath.Join(dir, markFile))
			if err != nil {
				t.Fatal(err)
			}
			crashes = append(crashes, crash{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: random}), mark, all})
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, c := range crashes {
			if err := os.WriteFile(filepath.Join(dir, markFile), c.mark, 0o644); err != nil {
				t.Fatal(err)
			}
			f.disk = c.disk
			s, err := openWith(&f, dir, Pebble)
			if err != nil {
				t.Fatal(err)
			}
			wantLogs(t, s, c.acknowledged)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
