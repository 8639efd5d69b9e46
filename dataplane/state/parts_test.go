package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/corvo/corvo/engine/image"
)

// openDisk opens a store on the real disk.
func openDisk(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{MemTableBytes: memTable, headsKept: 3})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() }) // a second Close does nothing
	return s
}

func tables(parts []image.Part) map[string]image.Part {
	found := map[string]image.Part{}
	for _, p := range parts {
		if immutable(p.Name) {
			found[p.Name] = p
		}
	}
	return found
}

func compact(t testing.TB, s *Store) {
	t.Helper()
	must(t, s.gen.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
}

func current(s *Store) string { return s.dbDir(s.gen.number) }

// A restore links the tables of another store on the same disk instead of copying them, and neither store
// writes into the shared tables, however long both go on.
func TestRestoreLinksTables(t *testing.T) {
	t.Parallel()
	from, to := openDisk(t, t.TempDir()), openDisk(t, t.TempDir())
	run(t, from, 150)
	compact(t, from) // or the other store would begin with a compaction
	i, err := from.Image()
	must(t, err)
	must(t, to.Restore(i))
	shared := tables(i.Parts())
	if len(shared) < 1 {
		t.Fatalf("the image has %d tables", len(shared))
	}
	kept := t.TempDir()
	for _, p := range i.Parts() {
		a, err := os.Stat(filepath.Join(i.dir, p.Name))
		must(t, err)
		b, err := os.Stat(filepath.Join(current(to), p.Name))
		if os.IsNotExist(err) && !immutable(p.Name) {
			continue // Pebble has begun a new one already
		}
		must(t, err)
		if got := os.SameFile(a, b); got != immutable(p.Name) {
			t.Errorf("%s is shared: %v", p.Name, got)
		}
		if immutable(p.Name) {
			must(t, os.Link(filepath.Join(i.dir, p.Name), filepath.Join(kept, p.Name)))
		}
	}
	must(t, i.Close())
	for _, s := range []*Store{from, to} {
		run(t, s, 300)
		compact(t, s)
		check(t, s)
	}
	if content(t, from) != content(t, to) {
		t.Error("the stores went different ways")
	}
	for name, p := range shared {
		if got, err := hashFile(vfs.Default, filepath.Join(kept, name)); err != nil || got != p {
			t.Errorf("%s was written to: %v, %v", name, got, err)
		}
	}
}

// TestImagesGiveTheDiskBack checks that a closed image leaves no files.
func TestImagesGiveTheDiskBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openDisk(t, dir)
	run(t, s, 50)
	i, err := s.Image()
	must(t, err)
	if _, err := os.Stat(i.dir); err != nil {
		t.Fatal(err)
	}
	must(t, i.Close())
	left, err := filepath.Glob(filepath.Join(dir, imagePrefix+"*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("there is left %v", left)
	}
}

// TestImageReadsOnlyWhatIsNew counts how often images open tables. A table is read for the first image with
// it, and not at all if it came with a restore. Pebble itself may open a table once, to read the head.
func TestImageReadsOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	var opened sync.Map // path -> *atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpOpen {
			n, _ := opened.LoadOrStore(op.Path, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		}
		return nil
	}))
	times := func(i *Image, name string) int64 {
		n, ok := opened.Load(fs.PathJoin(i.dir, name))
		if !ok {
			return 0
		}
		return n.(*atomic.Int64).Load()
	}
	s, to := openSmall(t, fs), openClosing(t)
	before := map[string]image.Part{}
	again := 0
	look := func(i *Image) {
		t.Helper()
		now := tables(i.Parts())
		for name, p := range now {
			old, known := before[name]
			if n := times(i, name); known && n > 1 || !known && n < 2 {
				t.Errorf("at entry %d %s, known: %v, was opened %d times", i.head.Index, name, known, n)
			}
			if known && old != p {
				t.Errorf("%s was %v and is %v", name, old, p)
			}
			if known {
				again++
			}
		}
		before = now
		readAll(t, i) // compares the hashes with the bytes
	}
	for _, last := range []int{100, 100, 101, 160} {
		run(t, s, last)
		i, err := s.Image()
		must(t, err)
		look(i)
		must(t, i.Close())
	}
	run(t, to, 200)
	compact(t, to)
	from, err := to.Image()
	must(t, err)
	must(t, s.Restore(from))
	before = tables(from.Parts())
	must(t, from.Close())
	i, err := s.Image()
	must(t, err)
	look(i)
	must(t, i.Close())
	if again == 0 {
		t.Errorf("no table was in two images")
	}
	must(t, s.Close())
}

// TestHeldTables checks that Held finds the tables that a restore brought, and no others.
func TestHeldTables(t *testing.T) {
	t.Parallel()
	from, to := openDisk(t, t.TempDir()), openDisk(t, t.TempDir())
	run(t, from, 100)
	compact(t, from)
	i, err := from.Image()
	must(t, err)
	must(t, to.Restore(i))
	for _, p := range i.Parts() {
		path := to.Held(p)
		if (path != "") != immutable(p.Name) {
			t.Errorf("%s is held as %q", p.Name, path)
		}
		if path == "" {
			continue
		}
		if got, err := hashFile(vfs.Default, path); err != nil || got != p {
			t.Errorf("%s is held as %v, %v", p.Name, got, err)
		}
		p.Size++
		if to.Held(p) != "" {
			t.Errorf("%s is held at another size", p.Name)
		}
	}
	must(t, i.Close())
	must(t, to.Close())
	if path := to.Held(image.Part{Name: "000001.sst"}); path != "" {
		t.Errorf("a closed store holds %s", path)
	}
	inMemory := openClosing(t)
	run(t, inMemory, 5)
	i, err = inMemory.Image()
	must(t, err)
	for _, p := range i.Parts() {
		if inMemory.Held(p) != "" || i.Path(p.Name) != "" {
			t.Errorf("%s of a store in memory lies on the disk", p.Name)
		}
	}
	must(t, i.Close())
}

// TestRotIsNotHandedOn damages a table after an image has hashed it. A reader of the image then gets an error
// instead of the end of the table, and the store fails. A table that was damaged before is never hashed.
func TestRotIsNotHandedOn(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openDisk(t, dir)
			run(t, s, 100)
			must(t, s.Flush())
			compact(t, s)
			must(t, s.Close())
			s = openDisk(t, dir) // with no file in the making
			harm := func(dir string) {
				names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
				must(t, err)
				for _, name := range names {
					garble(t, vfs.Default, name)
				}
			}
			if when == "before" {
				harm(current(s))
				i, err := s.Image()
				if err == nil {
					t.Fatal("an image of damaged tables was taken", i.Close())
				}
				if !strings.Contains(err.Error(), "corrupt") || s.Err() == nil {
					t.Errorf("it says %v, the store %v", err, s.Err())
				}
				return
			}
			i, err := s.Image()
			must(t, err)
			harm(i.dir)
			var read error
			for name := range tables(i.Parts()) {
				r, err := i.Open(name)
				must(t, err)
				_, err = io.Copy(io.Discard, r)
				read = errors.Join(read, err, r.Close())
			}
			if !errors.Is(read, image.ErrDiffers) || s.Err() == nil {
				t.Errorf("reading says %v, the store %v", read, s.Err())
			}
			must(t, i.Close())
		})
	}
}

// garble flips a bit in each 4 KiB of a file, in place.
func garble(t testing.TB, fs vfs.FS, path string) {
	t.Helper()
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	must(t, err)
	info, err := f.Stat()
	must(t, err)
	b := make([]byte, 1)
	for at := min(info.Size(), 4096) / 3; at < info.Size(); at += 4096 {
		_, err = f.ReadAt(b, at)
		must(t, err)
		b[0] ^= 0x10
		_, err = f.WriteAt(b, at)
		must(t, err)
	}
	must(t, f.Close())
}

// TestVerify verifies a sound store and damaged ones.
func TestVerify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openDisk(t, dir)
	run(t, s, 100)
	report, err := s.Verify(t.Context())
	if err != nil || report.Applied != s.Applied() {
		t.Errorf("a sound store at %+v is %+v, %v", s.Applied(), report, err)
	}
	if report.Tables == 0 || report.Bytes == 0 {
		t.Errorf("a sound store has %d tables of %d bytes", report.Tables, report.Bytes)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Verify(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("to whom nobody listens it says %v", err)
	}
	must(t, s.Close())
	names, err := filepath.Glob(filepath.Join(current(s), "*.sst"))
	must(t, err)
	for n := range names {
		copied := filepath.Join(t.TempDir(), "store")
		must(t, os.CopyFS(copied, os.DirFS(dir)))
		garble(t, vfs.Default, filepath.Join(copied, filepath.Base(current(s)), filepath.Base(names[n])))
		s, err := Open(copied, Options{})
		if err == nil {
			_, err = s.Verify(t.Context())
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "corrupt") && !strings.Contains(err.Error(), "checksum") {
			t.Errorf("a store with damage in %s says %v", fmt.Sprint(filepath.Base(names[n])), err)
		}
	}
}
