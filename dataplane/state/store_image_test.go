package state

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// copied is an image in memory that outlives its store and that tests can damage.
type copied struct {
	parts []image.Part
	bytes map[string][]byte
	onGet func(name string) // called before each read
}

func (c *copied) Parts() []image.Part { return c.parts }

func (c *copied) Open(name string) (io.ReadCloser, error) {
	data, ok := c.bytes[name]
	if !ok {
		return nil, errors.New("no such part")
	}
	r := bytes.NewReader(data)
	return io.NopCloser(readerFunc(func(b []byte) (int, error) {
		if c.onGet != nil {
			c.onGet(name)
		}
		return r.Read(b[:min(len(b), 2048)])
	})), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// copyOf returns an image of the store as it is now.
func copyOf(t testing.TB, s *Store) *copied {
	t.Helper()
	i, err := s.Image()
	must(t, err)
	c := readAll(t, i)
	if i.Applied() != s.Applied() {
		t.Errorf("the image is at %v, the store at %v", i.Applied(), s.Applied())
	}
	inImage, index := i.Configuration()
	if inStore, at := s.Configuration(); !bytes.Equal(inImage, inStore) || index != at {
		t.Errorf("the image has configuration %q of entry %d, the store %q of %d", inImage, index, inStore, at)
	}
	must(t, i.Close())
	return c
}

func readAll(t testing.TB, from image.Source) *copied {
	t.Helper()
	c := &copied{parts: from.Parts(), bytes: map[string][]byte{}}
	must(t, image.Check(c.parts))
	for _, p := range c.parts {
		r, err := from.Open(p.Name)
		must(t, err)
		c.bytes[p.Name], err = io.ReadAll(r)
		must(t, errors.Join(err, r.Close()))
		if sum, _ := image.Sum(p.Name, bytes.NewReader(c.bytes[p.Name])); sum != p {
			t.Errorf("the image says %v and has %v", p, sum)
		}
	}
	return c
}

// onlyOneStore checks that the store's directory holds no leftovers.
func onlyOneStore(t testing.TB, fs vfs.FS) {
	t.Helper()
	names, err := fs.List("store")
	must(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "marker.") })
	if len(names) != 1 {
		t.Errorf("the store's directory holds %v", names)
	}
}

// TestImageHoldsWhatIsInMemory takes an image before the first flush, when all content is in memory.
func TestImageHoldsWhatIsInMemory(t *testing.T) {
	t.Parallel()
	from := openClosing(t)
	update(t, from, func(tx *Tx) { create(t, tx, 1, "q") })
	if got := from.gen.db.Metrics().Flush.Count; got != 0 {
		t.Fatalf("%d flushes came before the image", got)
	}
	to := openClosing(t)
	must(t, to.Restore(copyOf(t, from)))
	if content(t, to) != content(t, from) {
		t.Error("the restored store differs")
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	fromFS, toFS := vfs.NewMem(), vfs.NewCrashableMem()
	from, to := openSmall(t, fromFS), openSmall(t, toFS)
	run(t, from, 60)
	must(t, from.PutConfiguration(position(61), []byte("members")))
	must(t, from.Begin(position(62), header(999)).Commit())
	run(t, to, 7)
	update(t, to, func(tx *Tx) { create(t, tx, 1, "forgotten"); must(t, tx.PutKey(&Key{Id: "forgotten"})) })

	old := to.Snapshot()
	var hooks []string
	to.SetHooks(Hooks{
		OnReady: func(queue string, n int) { hooks = append(hooks, "ready") },
		OnTimer: func(class TimerClass, _ int64) { hooks = append(hooks, fmt.Sprint("timer ", class)) },
		OnFeed:  func() { hooks = append(hooks, "feed") },
	})
	must(t, to.Restore(copyOf(t, from)))
	want := content(t, from)
	if content(t, to) != want {
		t.Error("the restored store differs")
	}
	for _, hook := range []string{"ready", "timer 1", "timer 3", "timer 4", "feed"} {
		if !slices.Contains(hooks, hook) {
			t.Errorf("after a restore the hooks said %v, not %q", hooks, hook)
		}
	}
	if to.Fetchable("forgotten") != 0 || to.Key("forgotten") != nil {
		t.Error("something of the old content is left in memory")
	}
	if encoded, index := to.Configuration(); string(encoded) != "members" || index != 61 {
		t.Errorf("the configuration is %q of entry %d", encoded, index)
	}
	if j, err := old.Job(idOf(1)); err != nil || j == nil || old.Head().Index != 8 {
		t.Errorf("a snapshot of the old content says %v, %v", j, err)
	}
	must(t, old.Close())
	onlyOneStore(t, toFS)

	// The restored store is durable, and goes on like the other one, also after it is reopened.
	crashed := toFS.CrashClone(vfs.CrashCloneCfg{})
	must(t, to.Close())
	to = openSmall(t, crashed)
	if content(t, to) != want {
		t.Error("the restored store is not durable")
	}
	for _, s := range []*Store{from, to} {
		run(t, s, 90)
		check(t, s)
	}
	if content(t, from) != content(t, to) {
		t.Error("the restored store went another way")
	}
	must(t, to.Restore(copyOf(t, from)))
	must(t, from.Close())
	must(t, to.Close())
}

// TestBrokenImagesAreRefused damages images in every way: bytes, lengths, and files that are missing, too
// many, swapped or elsewhere.
func TestBrokenImagesAreRefused(t *testing.T) {
	t.Parallel()
	from := openClosing(t)
	run(t, from, 5)
	whole := copyOf(t, from)
	fs := vfs.NewMem()
	s := open(t, fs)
	run(t, s, 3)
	want := content(t, s)
	rng := rand.New(rand.NewPCG(1, 1))
	refuse := func(what string, broken image.Source) {
		t.Helper()
		if err := s.Restore(broken); err == nil {
			t.Fatalf("an image %s was taken", what)
		}
	}
	harmed := func(name string, data []byte) *copied {
		c := &copied{parts: whole.parts, bytes: maps.Clone(whole.bytes)}
		c.bytes[name] = data
		return c
	}
	for _, p := range whole.parts {
		data := whole.bytes[p.Name]
		for at := range data {
			if at < 20 || at > len(data)-20 || rng.IntN(20) == 0 {
				refuse(fmt.Sprintf("with %s cut at %d", p.Name, at), harmed(p.Name, data[:at]))
				flipped := bytes.Clone(data)
				flipped[at] ^= 1 << rng.IntN(8)
				refuse(fmt.Sprintf("with %s broken at %d", p.Name, at), harmed(p.Name, flipped))
			}
		}
		refuse("with more in "+p.Name, harmed(p.Name, append(bytes.Clone(data), 0)))
		if p.Size > 0 && !strings.HasPrefix(p.Name, "OPTIONS") { // Pebble does not need the old one
			refuse("without "+p.Name, &copied{bytes: whole.bytes, parts: slices.DeleteFunc(slices.Clone(whole.parts), func(q image.Part) bool { return q == p })})
		}
		gone := harmed(p.Name, nil)
		delete(gone.bytes, p.Name)
		refuse("that lacks the bytes of "+p.Name, gone)
	}
	refuse("of nothing", &copied{})
	refuse("of something else", &copied{parts: []image.Part{{Name: "hello", Sum: sha256.Sum256(nil)}}, bytes: map[string][]byte{"hello": nil}})
	refuse("with a file elsewhere", &copied{parts: []image.Part{{Name: "../hello", Sum: sha256.Sum256(nil)}}, bytes: map[string][]byte{"../hello": nil}})
	refuse("of another entry than it claims", claiming{whole, position(6)})
	if content(t, s) != want || s.Err() != nil {
		t.Error("a refused image changed the store")
	}
	onlyOneStore(t, fs)
	run(t, s, 4)
	must(t, s.Restore(claiming{whole, position(5)}))
	must(t, s.Close())
}

type claiming struct {
	*copied
	at entry.Applied
}

func (c claiming) Applied() entry.Applied { return c.at }

// TestCrashInRestore takes the disk away at every write of a restore. The store must open with the old
// content or the new.
func TestCrashInRestore(t *testing.T) {
	t.Parallel()
	from := openClosing(t)
	run(t, from, 20)
	of := copyOf(t, from)
	newContent := content(t, from)

	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	run(t, s, 3)
	must(t, s.Flush())
	oldContent := content(t, s)
	var crashes []*vfs.MemFS
	rng := rand.New(rand.NewPCG(2, 2))
	of.onGet = func(string) {
		crashes = append(crashes, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}))
	}
	must(t, s.Restore(of))
	crashes = append(crashes, fs.CrashClone(vfs.CrashCloneCfg{}))
	must(t, s.Close())
	if len(crashes) < 10 {
		t.Fatalf("only %d crashes", len(crashes))
	}
	for i, crashed := range crashes {
		s := open(t, crashed)
		want := oldContent
		if i == len(crashes)-1 {
			want = newContent
		}
		if content(t, s) != want {
			t.Errorf("after crash %d of %d the store is at %v", i+1, len(crashes), s.Applied())
		}
		onlyOneStore(t, crashed)
		must(t, s.Close())
	}
}

// TestReadersBesideApply reads, takes snapshots and images, and restores while entries are applied. Every
// snapshot must be whole.
func TestReadersBesideApply(t *testing.T) {
	t.Parallel()
	other := openClosing(t)
	run(t, other, 40)
	of := copyOf(t, other)
	s := openSmall(t, vfs.NewMem())
	run(t, s, 1)
	done := make(chan struct{})
	var readers sync.WaitGroup
	reader := func(read func() error) {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for {
				if err := read(); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		}()
	}
	reader(func() error {
		v := s.Snapshot()
		return errors.Join(v.Check(), v.Close())
	})
	reader(func() error {
		_, err := s.Job(idOf(10))
		_, due, timers := s.NextDue(TimerLease)
		_, list := s.Due(TimerScheduled, 1e6, 5)
		_, fails := s.Errors(idOf(10))
		_, blob := s.Blob(idOf(10), job.Payload)
		_ = due
		s.Fetchable("q1")
		s.Keys()
		s.Configuration()
		s.Head()
		return errors.Join(err, timers, list, fails, blob)
	})
	reader(s.Flush)
	reader(func() error {
		i, err := s.Image()
		if err != nil {
			return err
		}
		for _, p := range i.Parts() {
			r, err := i.Open(p.Name)
			if err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				return err
			}
			if err := r.Close(); err != nil {
				return err
			}
		}
		return i.Close()
	})
	run(t, s, 30)
	must(t, s.Restore(of))
	run(t, s, 60)
	close(done)
	readers.Wait()
	must(t, s.Close())
}

// TestImageBesideApply takes images while entries are applied. Each must hold the state after one entry.
func TestImageBesideApply(t *testing.T) {
	t.Parallel()
	const entries = 60
	var want [entries + 1]string
	reference := open(t, vfs.NewMem())
	for n := 1; n <= entries; n++ {
		run(t, reference, n)
		want[n] = content(t, reference)
	}
	must(t, reference.Close())
	s := openSmall(t, vfs.NewMem())
	run(t, s, 1)
	images := make(chan *Image, 5)
	go func() {
		defer close(images)
		for range cap(images) {
			i, err := s.Image()
			if err != nil {
				t.Error(err)
				return
			}
			images <- i
		}
	}()
	run(t, s, entries)
	to := openSmall(t, vfs.NewMem())
	for i := range images {
		must(t, to.Restore(i))
		if to.Applied() != i.Applied() || content(t, to) != want[i.Applied().Index] {
			t.Errorf("the image of entry %d is at %d and differs", i.Applied().Index, to.Applied().Index)
		}
		must(t, i.Close())
	}
	must(t, to.Close())
	must(t, s.Close())
}
