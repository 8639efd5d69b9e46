package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

// stream is an image of the store as it is now.
func stream(t testing.TB, s *Store) []byte {
	t.Helper()
	i, err := s.Image()
	must(t, err)
	var b bytes.Buffer
	n, err := i.WriteTo(&b)
	must(t, err)
	if n != int64(b.Len()) {
		t.Errorf("the image says it wrote %d bytes, it wrote %d", n, b.Len())
	}
	if i.Applied() != s.Applied() {
		t.Errorf("the image is at %v, the store at %v", i.Applied(), s.Applied())
	}
	inImage, index := i.Configuration()
	if inStore, at := s.Configuration(); !bytes.Equal(inImage, inStore) || index != at {
		t.Errorf("the image has configuration %q of entry %d, the store %q of %d", inImage, index, inStore, at)
	}
	must(t, i.Close())
	return b.Bytes()
}

// onlyOneStore looks for leftovers in the store's directory.
func onlyOneStore(t testing.TB, fs vfs.FS) {
	t.Helper()
	names, err := fs.List("store")
	must(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "marker.") })
	if len(names) != 1 {
		t.Errorf("the store's directory holds %v", names)
	}
}

// TestImageHoldsWhatIsInMemory: nothing has been flushed when the image is
// taken, so that all of it comes from memory.
func TestImageHoldsWhatIsInMemory(t *testing.T) {
	t.Parallel()
	from := openClosing(t)
	update(t, from, func(tx *Tx) { create(t, tx, 1, "q") })
	if got := from.gen.db.Metrics().Flush.Count; got != 0 {
		t.Fatalf("%d flushes came before the image", got)
	}
	to := openClosing(t)
	must(t, to.Restore(bytes.NewReader(stream(t, from))))
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
	image := stream(t, from)
	must(t, to.Restore(bytes.NewReader(image)))
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

	// It is durable, and goes on as the other does, also once opened again.
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
	must(t, to.Restore(bytes.NewReader(stream(t, from))))
	must(t, from.Close())
	must(t, to.Close())
}

// TestBrokenImagesAreRefused cuts an image at every kind of place and flips
// bytes all over it.
func TestBrokenImagesAreRefused(t *testing.T) {
	t.Parallel()
	from := openClosing(t)
	run(t, from, 5)
	image := stream(t, from)
	fs := vfs.NewMem()
	s := open(t, fs)
	run(t, s, 3)
	want := content(t, s)
	rng := rand.New(rand.NewPCG(1, 1))
	refuse := func(what string, broken []byte) {
		t.Helper()
		if err := s.Restore(bytes.NewReader(broken)); err == nil {
			t.Fatalf("an image %s was taken", what)
		}
	}
	for cut := range len(image) {
		if cut < 200 || cut > len(image)-30 || rng.IntN(20) == 0 {
			refuse(fmt.Sprint("cut at ", cut), image[:cut])
		}
	}
	for at := range image {
		if at < 200 || at > len(image)-30 || rng.IntN(20) == 0 {
			broken := slices.Clone(image)
			broken[at] ^= 1 << rng.IntN(8)
			refuse(fmt.Sprint("broken at ", at), broken)
		}
	}
	refuse("that is none", []byte("hello, this is not an image at all, but it is long enough"))
	if content(t, s) != want || s.Err() != nil {
		t.Error("a refused image changed the store")
	}
	onlyOneStore(t, fs)
	run(t, s, 4)
	// What follows the image in its stream is not the image's and is left unread.
	r := bytes.NewReader(append(slices.Clone(image), "rest"...))
	must(t, s.Restore(r))
	if rest, _ := io.ReadAll(r); string(rest) != "rest" {
		t.Errorf("after the image the stream holds %q", rest)
	}
	must(t, s.Close())
}

// TestImageStaysInItsDirectory refuses names that lead elsewhere.
func TestImageStaysInItsDirectory(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"000007.sst": true, "..": false, ".": false, "../x": false, `a\b`: false, "a\x00": false} {
		if plainName(name) != want {
			t.Errorf("%q is a plain name: %v", name, !want)
		}
	}
}

// TestCrashInRestore takes the disk away at every write of a restore. The store
// must open with the old content or the new.
func TestCrashInRestore(t *testing.T) {
	t.Parallel()
	from := openClosing(t)
	run(t, from, 20)
	image := stream(t, from)
	newContent := content(t, from)

	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	run(t, s, 3)
	must(t, s.Flush())
	oldContent := content(t, s)
	var crashes []*vfs.MemFS
	rng := rand.New(rand.NewPCG(2, 2))
	r := readerFunc(func(b []byte) (int, error) {
		crashes = append(crashes, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}))
		n := copy(b[:min(len(b), 2048)], image)
		image = image[n:]
		return n, nil
	})
	must(t, s.Restore(r))
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

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestReadersBesideApply reads, snapshots, images and restores while entries
// are applied; every snapshot must be whole.
func TestReadersBesideApply(t *testing.T) {
	t.Parallel()
	other := openClosing(t)
	run(t, other, 40)
	image := stream(t, other)
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
		_, err = i.WriteTo(io.Discard)
		return errors.Join(err, i.Close())
	})
	run(t, s, 30)
	must(t, s.Restore(bytes.NewReader(image)))
	run(t, s, 60)
	close(done)
	readers.Wait()
	must(t, s.Close())
}

// TestImageBesideApply takes images while entries are applied: each must be as
// one entry left the store.
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
		var b bytes.Buffer
		_, err := i.WriteTo(&b)
		must(t, err)
		must(t, to.Restore(&b))
		if to.Applied() != i.Applied() || content(t, to) != want[i.Applied().Index] {
			t.Errorf("the image of entry %d is at %d and differs", i.Applied().Index, to.Applied().Index)
		}
		must(t, i.Close())
	}
	must(t, to.Close())
	must(t, s.Close())
}
