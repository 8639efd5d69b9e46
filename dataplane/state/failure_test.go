package state

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/corvo/corvo/dataplane/job"
)

var errDisk = errors.New("the disk is broken")

// TestDiskErrorsStopTheStore breaks one kind of write after a flush that succeeded. The next flush must
// return an error, the store must refuse further commits and close, and after a crash the store must be as
// the successful flush left it.
func TestDiskErrorsStopTheStore(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(op errorfs.Op) bool{
		"create a table": func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") },
		"write a table":  func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") },
		"sync a table":   func(op errorfs.Op) bool { return isSync(op) && strings.HasSuffix(op.Path, ".sst") },
		"write the manifest": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "MANIFEST")
		},
		"sync the manifest": func(op errorfs.Op) bool { return isSync(op) && strings.Contains(op.Path, "MANIFEST") },
		"write anything":    func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := vfs.NewCrashableMem()
			toggle := errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
				if broken(op) {
					return errDisk
				}
				return nil
			})}
			s := openSmall(t, errorfs.Wrap(memory, &toggle))
			run(t, s, 20)
			must(t, s.Flush())
			want := content(t, s)
			update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
			must(t, s.Err())
			toggle.On()
			if err := s.Flush(); !errors.Is(err, errDisk) {
				t.Errorf("flush says %v", err)
			}
			select {
			case <-s.Failed():
			default:
				t.Error("nobody is told of the failure")
			}
			if err := begin(s).Commit(); !errors.Is(err, errDisk) {
				t.Errorf("a commit after a failed flush says %v", err)
			}
			if err := s.PutConfiguration(position(99), nil); !errors.Is(err, errDisk) {
				t.Errorf("a membership change after a failed flush says %v", err)
			}
			if _, err := s.Image(); !errors.Is(err, errDisk) {
				t.Errorf("an image after a failed flush says %v", err)
			}
			if err := s.Restore(&copied{}); !errors.Is(err, errDisk) {
				t.Errorf("a restore after a failed flush says %v", err)
			}
			crashed := memory.CrashClone(vfs.CrashCloneCfg{})
			_ = s.Close() // the disk is broken, so any error will do, but it must return
			s = openSmall(t, crashed)
			if content(t, s) != want {
				t.Errorf("after the crash the store is at %v", s.Applied())
			}
			check(t, s)
			must(t, s.Close())
		})
	}
}

func isSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}

// TestDiskErrorsInRestore breaks every single write of a restore in turn. The restore must fail with the old
// content intact, or report that the store cannot go on. The store then opens with the old content or the
// new.
func TestDiskErrorsInRestore(t *testing.T) {
	t.Parallel()
	from := openClosing(t)
	run(t, from, 20)
	of, newContent := copyOf(t, from), content(t, from)
	restored := false
	for at := int32(0); !restored; at++ {
		memory := vfs.NewCrashableMem()
		index := errorfs.OnIndex(-1)
		s := open(t, errorfs.Wrap(memory, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return index.MaybeError(op)
			}
			return nil
		})))
		run(t, s, 3)
		must(t, s.Flush())
		oldContent := content(t, s)
		index.Store(at)
		err := s.Restore(of)
		index.Store(-1)
		restored = err == nil
		switch now := content(t, s); {
		case err == nil && now != newContent:
			t.Errorf("write %d: restored, and the content is not the new", at)
		case err != nil && s.Err() == nil && now != oldContent:
			t.Errorf("write %d: %v, and the content is not the old", at, err)
		}
		crashed := memory.CrashClone(vfs.CrashCloneCfg{})
		_ = s.Close()
		s = open(t, crashed)
		if now := content(t, s); now != newContent && (now != oldContent || err == nil) {
			t.Errorf("write %d: after %v and a crash the store is at %v", at, err, s.Applied())
		}
		must(t, s.Close())
	}
}

// TestCorruptionIsSaid overwrites the tables on disk and reads them.
func TestCorruptionIsSaid(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	must(t, s.Close())
	names, err := fs.List("store/db-000001")
	must(t, err)
	tables := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		tables++
		path := "store/db-000001/" + name
		f, err := fs.Open(path)
		must(t, err)
		data, err := io.ReadAll(f)
		must(t, err)
		must(t, f.Close())
		for at := range len(data) / 2 {
			data[at] ^= 0x55
		}
		f, err = fs.Create(path, vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = f.Write(data)
		must(t, err)
		must(t, f.Close())
	}
	if tables == 0 {
		t.Fatal("there are no tables")
	}
	s, err = Open("store", Options{FS: fs})
	if err == nil {
		_, err = s.Job(idOf(1))
		_ = s.Close()
	}
	if err == nil {
		t.Error("a corrupt table was read")
	}
}

// TestClosedStoreSaysSo checks that the calls that may come after Close return errClosed.
func TestClosedStoreSaysSo(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	forgotten := s.Snapshot()
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "1 snapshots are open") {
		t.Errorf("closing with an open snapshot says %v", err)
	}
	must(t, forgotten.Close())
	v := s.Snapshot()
	_, job1 := s.Job(idOf(1))
	_, blob := s.Blob(idOf(1), job.Payload)
	_, list := s.Errors(idOf(1))
	_, _, next := s.NextDue(TimerLease)
	_, due := s.Due(TimerLease, 1, 1)
	_, image := s.Image()
	_, fromSnapshot := v.Job(idOf(1))
	for what, err := range map[string]error{"job": job1, "blob": blob, "errors": list, "next due": next, "due": due,
		"image": image, "flush": s.Flush(), "snapshot": fromSnapshot, "check": v.Check()} {
		if !errors.Is(err, errClosed) {
			t.Errorf("%s of a closed store says %v", what, err)
		}
	}
	for _, err := range v.Jobs() {
		if !errors.Is(err, errClosed) {
			t.Errorf("jobs of a closed store say %v", err)
		}
	}
	must(t, v.Close())
}

// TestSharedCaches opens several stores on one Shared.
func TestSharedCaches(t *testing.T) {
	t.Parallel()
	shared := NewShared(1 << 20)
	fs := vfs.NewMem()
	var stores []*Store
	for n := range 5 {
		s, err := Open(fmt.Sprint("store", n), Options{FS: fs, Shared: shared})
		must(t, err)
		stores = append(stores, s)
	}
	for _, s := range stores {
		run(t, s, 10)
		must(t, s.Flush())
		if content(t, s) != content(t, stores[0]) {
			t.Error("two stores of one history differ")
		}
	}
	for _, s := range stores {
		must(t, s.Close())
	}
	shared.Close()
}

// TestFailedFlushEndsTheWaitForIt lets commits wait for a flush, and then the flush fails. The waiting commit, or the one
// after it, must return the error.
func TestFailedFlushEndsTheWaitForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		broken := make(chan struct{})
		s := openSmall(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if hangs.Load() && op.Kind == errorfs.OpFileWrite {
				<-broken
				return errDisk
			}
			return nil
		})))
		hangs.Store(true)
		ended := make(chan error, 1)
		go func() {
			for n := 1; ; n++ {
				tx := begin(s)
				create(t, tx, n, "q")
				if err := tx.Commit(); err != nil {
					ended <- err
					return
				}
			}
		}()
		synctest.Wait()
		before := s.Applied()
		if before.Index < 10 {
			t.Errorf("commits wait after entry %d already", before.Index)
		}
		close(broken)
		if err := <-ended; !errors.Is(err, errDisk) {
			t.Errorf("the commit says %v", err)
		}
		_ = s.Close() // the disk is broken, so any error will do
	})
}
