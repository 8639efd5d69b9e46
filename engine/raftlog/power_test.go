package raftlog

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

var powerSeeds = flag.Uint64("power.seeds", 40, "histories in TestPowerFails")

// sector is the unit that a disk writes as a whole or not at all.
const sector = 512

// volatile is a disk for raft-wal that simulates a power failure. The failure may lose any sectors of writes
// that no sync followed, in any order, and the names of files whose creation no sync followed. The other
// files of the directory are written and synced by other code.
type volatile struct {
	types.VFS
	dir string

	mu    sync.Mutex
	files map[string]*volatileFile
	calls int    // number of changing calls until fails is called
	fails func() // with mu held
}

type volatileFile struct {
	types.WritableFile
	disk   *volatile
	synced []byte
	since  []change // in order
	made   bool     // the opener created it: its first sync also syncs the directory
	named  bool
}

type change struct {
	at   int64
	data []byte
}

func newVolatile(dir string) *volatile {
	return &volatile{VFS: walfs.New(), dir: dir, files: map[string]*volatileFile{}}
}

func (d *volatile) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := d.VFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[name] = &volatileFile{WritableFile: f, disk: d, synced: make([]byte, size), made: true}
	return d.files[name], nil
}

// OpenWriter opens a file that may have been created through this disk.
func (d *volatile) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := d.VFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	file := d.files[name]
	if file == nil {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		file = &volatileFile{disk: d, synced: content, named: true}
	}
	file.WritableFile, file.made = f, false
	d.files[name] = file
	return file, nil
}

// SyncDir makes all names durable.
func (d *volatile) SyncDir(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called()
	for _, f := range d.files {
		f.named = true
	}
	return nil
}

// SyncData makes a file's content durable, and not its name.
func (d *volatile) SyncData(f types.WritableFile) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called()
	f.(*volatileFile).keep()
	return nil
}

func (d *volatile) Delete(dir, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called()
	delete(d.files, name)
	return d.VFS.Delete(dir, name)
}

// called counts down to the failure. It is not called when a file is created, because the library creates the
// next segment in the background.
func (d *volatile) called() {
	if d.calls--; d.calls == 0 {
		d.fails()
	}
}

func (f *volatileFile) WriteAt(p []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.since = append(f.since, change{at, slices.Clone(p)})
	f.disk.called()
	return f.WritableFile.WriteAt(p, at)
}

func (f *volatileFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.called()
	f.keep()
	f.named = f.named || f.made
	return nil
}

func (f *volatileFile) keep() {
	f.synced, f.since = f.left(func(n int) int { return n }), nil
}

func (f *volatileFile) Stat() (os.FileInfo, error) { return f.WritableFile.(statted).Stat() }

// left returns the file with only the first changes of each sector; of chooses how many of them.
func (f *volatileFile) left(of func(changes int) int) []byte {
	size := int64(len(f.synced))
	for _, c := range f.since {
		size = max(size, c.at+int64(len(c.data)))
	}
	content := append(slices.Clone(f.synced), make([]byte, size-int64(len(f.synced)))...)
	for from := int64(0); from < size; from += sector {
		to, touching := from+sector, []change{}
		for _, c := range f.since {
			if c.at < to && c.at+int64(len(c.data)) > from {
				touching = append(touching, c)
			}
		}
		for _, c := range touching[:of(len(touching))] {
			copy(content[max(from, c.at):min(to, size)], c.data[max(from, c.at)-c.at:])
		}
	}
	return content
}

// survives writes the directory that a power failure leaves to to.
func (d *volatile) survives(t *testing.T, r *rand.Rand, to string) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		t.Error(err)
	}
	luck := r.IntN(3) // all unsynced writes are lost, or none, or some
	of := func(n int) int { return [3]int{0, n, r.IntN(n + 1)}[luck] }
	for _, e := range entries {
		f := d.files[e.Name()]
		content, err := os.ReadFile(filepath.Join(d.dir, e.Name()))
		if f != nil {
			content = f.left(of)
		}
		if f != nil && !f.named {
			switch r.IntN(3) {
			case 0:
				continue
			case 1:
				content = nil // its size is lost too
			}
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), content, 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// powered is a log on a volatile disk, and the writes that it has acknowledged.
type powered struct {
	*testing.T
	*rand.Rand
	Store
	disk *volatile
	said
}

// said records the acknowledged state of a log: the entries above cut, up to last, must be there. Those up to
// under may be, because a write or deletion of them was in flight.
type said struct {
	cut, last, under uint64
	entries          map[uint64]*raft.Log
	term             uint64
}

// open opens the log and checks it against the acknowledged state.
func (p *powered) open(disk *volatile) {
	p.Helper()
	p.disk = disk
	s, err := openWith(&Factory{SegmentBytes: MinSegmentBytes, Logger: hclog.NewNullLogger(), files: disk}, disk.dir, WAL)
	if err != nil {
		p.Fatal(err)
	}
	p.Store = s
	last := max(lastOf(p.T, s), p.cut) // an empty log has no last entry
	if last < p.last || last > max(p.last, p.under) {
		p.Fatalf("the log ends at %d; %d were acknowledged, and %d under way", last, p.last, p.under)
	}
	for i := p.cut + 1; i <= last; i++ {
		var got raft.Log
		if err := s.GetLog(i, &got); err != nil || got.Term != p.entries[i].Term || !bytes.Equal(got.Data, p.entries[i].Data) {
			p.Fatalf("entry %d: %v, term %d, %d bytes", i, err, got.Term, len(got.Data))
		}
	}
	term, err := s.GetUint64([]byte("term"))
	if err != nil && err.Error() != "not found" || term != p.term {
		p.Fatalf("the term is %d, %v; %d was acknowledged", term, err, p.term)
	}
	p.last, p.under = last, last
}

// step makes one change and records the state before and after its acknowledgement.
func (p *powered) step() {
	p.Helper()
	var err error
	switch n := p.IntN(20); {
	case n < 2:
		p.term++ // a library that syncs on its own stores it
		err = p.SetUint64([]byte("term"), p.term)
	case n == 2:
		p.cut = max(p.cut, p.last-min(p.last, p.Uint64N(40)))
		err = p.DeleteRange(0, p.cut)
	case n == 3 && p.last > p.cut+4:
		p.last -= 3
		err = p.DeleteRange(p.last+1, p.under)
		p.under = p.last
	default:
		batch := logs(p.last+1, p.last+1+p.Uint64N(5), p.term+p.Uint64N(100))
		for _, l := range batch {
			switch p.IntN(8) {
			case 0: // unchanged, 4 KiB
			case 1:
				l.Data = bytes.Repeat([]byte{byte(l.Term)}, largeWrite+p.IntN(largeWrite))
			default:
				l.Data = l.Data[:p.IntN(300)]
			}
			p.entries[l.Index] = l
		}
		p.under += uint64(len(batch))
		err = p.StoreLogs(batch)
		p.last = p.under
	}
	if err != nil {
		p.Fatal(err)
	}
}

// TestPowerFails checks that after a power failure every acknowledged entry is there, no deleted one is, and
// the log continues. The process may have crashed before the power failure, and the next one continued with
// the content of the system's memory.
func TestPowerFails(t *testing.T) {
	t.Parallel()
	for seed := range *powerSeeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			p := &powered{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), said: said{entries: map[uint64]*raft.Log{}}}
			p.open(newVolatile(t.TempDir()))
			for range 6 {
				p.until(t.TempDir())
			}
			p.closed()
		})
	}
}

// until works on the log until the power fails in a write or sync, and continues with the directory that the
// failure leaves.
func (p *powered) until(to string) {
	var left *said
	p.disk.mu.Lock()
	p.disk.calls = 1 + p.IntN(60)
	p.disk.fails = func() {
		p.disk.survives(p.T, p.Rand, to)
		then := p.said
		then.entries = maps.Clone(p.entries)
		left = &then
	}
	p.disk.mu.Unlock()
	for left == nil {
		p.step()
		if p.IntN(40) == 0 {
			p.closed()
			p.open(p.disk)
		}
	}
	p.closed()
	p.said = *left
	p.open(newVolatile(to))
}

func (p *powered) closed() {
	p.Helper()
	if err := p.Close(); err != nil {
		p.Fatal(err)
	}
}
