package state

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
)

// A store whose list of tables is torn, garbled or gone does not open with less than it had, and its error
// says how to repair it.
func TestDamagedManifestIsRefused(t *testing.T) {
	t.Parallel()
	for what, harm := range map[string]func(t *testing.T, fs vfs.FS, path string){
		"gone":    func(t *testing.T, fs vfs.FS, path string) { must(t, fs.Remove(path)) },
		"garbled": garbleIn,
		"torn": func(t *testing.T, fs vfs.FS, path string) {
			data := readFile(t, fs, path)
			writeFile(t, fs, path, data[:len(data)/2])
		},
		"empty": func(t *testing.T, fs vfs.FS, path string) { writeFile(t, fs, path, nil) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			s := openSmall(t, fs)
			run(t, s, 60)
			must(t, s.Flush())
			want := s.Applied()
			dir := current(s)
			must(t, s.Close())
			names, err := fs.List(dir)
			must(t, err)
			for _, name := range names {
				if strings.HasPrefix(name, "MANIFEST") {
					harm(t, fs, fs.PathJoin(dir, name))
				}
			}
			s, err = Open("store", Options{FS: fs})
			if err == nil {
				// Pebble takes a manifest that ends between two edits for one that a crash cut. The head then
				// holds the position of the store, and the replica finds that the log, or the manifest of the
				// snapshot, is ahead of it.
				if s.Applied() == want && what != "garbled" {
					t.Errorf("it opened at %v", s.Applied())
				}
				must(t, s.Close())
				return
			}
			if !strings.Contains(err.Error(), "rebuild this replica") {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func garbleIn(t *testing.T, fs vfs.FS, path string) { garble(t, fs, path) }

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	must(t, err)
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	must(t, errors.Join(err, f.Close()))
	return b.Bytes()
}

func writeFile(t testing.TB, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write(data)
	must(t, errors.Join(err, f.Sync(), f.Close()))
}

// TestCorruptTableStopsTheStore garbles the tables of an open store. Reads return the right job or an error,
// and both a failed read and a compaction end the store.
func TestCorruptTableStopsTheStore(t *testing.T) {
	t.Parallel()
	for what, meet := range map[string]func(t *testing.T, s *Store, want map[job.ID]string){
		"read": func(t *testing.T, s *Store, want map[job.ID]string) {
			failed := 0
			for id, text := range want {
				j, err := s.Job(id)
				switch {
				case err != nil:
					failed++
				case j == nil || fmt.Sprint(j) != text:
					t.Fatalf("job %s was %s and is %v", id, text, j)
				}
			}
			if failed == 0 {
				t.Error("all could be read")
			}
		},
		"compaction": func(t *testing.T, s *Store, _ map[job.ID]string) {
			update(t, s, func(tx *Tx) { create(t, tx, 5000, "q") })
			must(t, s.Flush())
			if err := s.gen.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err == nil {
				t.Error("it went well")
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openDisk(t, dir)
			run(t, s, 100)
			compact(t, s)
			want := map[job.ID]string{}
			for n := range 1100 {
				j, err := s.Job(idOf(n))
				must(t, err)
				if j != nil {
					want[idOf(n)] = fmt.Sprint(j)
				}
			}
			must(t, s.Close())
			shared := NewShared(0) // so that reads come from the disk
			s, err := Open(dir, Options{Shared: shared})
			must(t, err)
			names, err := filepath.Glob(filepath.Join(current(s), "*.sst"))
			must(t, err)
			for _, name := range names {
				garble(t, vfs.Default, name)
			}
			meet(t, s, want)
			for _, err := range []error{s.Err(), begin(s).Commit()} {
				if err == nil || !strings.Contains(err.Error(), "is corrupt") || strings.Count(err.Error(), "\n") > 0 {
					t.Errorf("the store says %v", err)
				}
			}
			_ = s.Close() // the store is damaged, so any error will do
			shared.Close()
		})
	}
}

// TestFullDisk fills the disk under a replica. The flush fails, and the store and with it the replica stop.
// Once the disk has space again, the store has all acknowledged jobs.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate) {
			return syscall.ENOSPC
		}
		return nil
	}))
	dir := t.TempDir()
	open := func(found bool) (*Store, *replica.Replica) {
		s, err := Open("store", Options{FS: fs, MemTableBytes: memTable})
		must(t, err)
		quiet := slog.New(slog.DiscardHandler)
		log, err := (&raftlog.Factory{SegmentBytes: raftlog.MinSegmentBytes, Logger: replica.NewLogger(quiet)}).Open(filepath.Join(dir, "log"), raftlog.WAL)
		must(t, err)
		if found {
			must(t, replica.Bootstrap(log, "one", "one", shard{s}))
		}
		led := make(chan struct{}, 9)
		r, err := replica.Open(replica.Config{
			Dir: dir, Group: "g", Incarnation: testIncarnation, ID: "one", Machine: shard{s}, Log: log, Logger: quiet,
			Leadership: func(_ *replica.Replica, leads bool, _ uint64) {
				if leads {
					led <- struct{}{}
				}
			},
		})
		must(t, err)
		<-led
		return s, r
	}
	append1 := func(r *replica.Replica, n int) error {
		var b entry.Builder
		must(t, b.Add(1, 8, number(n)))
		_, _, err := r.Append(r.Term(), b.Finish(entry.Header{Level: 1, Incarnation: testIncarnation, ClockNs: int64(n)})).Wait()
		return err
	}
	s, r := open(true)
	acknowledged := 0
	for acknowledged < 200 {
		must(t, append1(r, acknowledged+1))
		acknowledged++
	}
	full.Store(true)
	for append1(r, acknowledged+1) == nil {
		if acknowledged++; acknowledged > 5000 {
			t.Fatal("nothing has stopped")
		}
	}
	if err := s.Err(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the store says %v", err)
	}
	<-r.Failed()
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the replica says %v", err)
	}
	must(t, r.Close())
	_ = s.Close() // the disk is full, so any error will do
	full.Store(false)
	s, r = open(false)
	must(t, append1(r, 100_000)) // its entry is applied after the replayed ones
	for n := 1; n <= acknowledged; n++ {
		if j, err := s.Job(idOf(n)); err != nil || j == nil {
			t.Fatalf("job %d of %d is %v, %v", n, acknowledged, j, err)
		}
	}
	check(t, s)
	must(t, r.Close())
	must(t, s.Close())
}
