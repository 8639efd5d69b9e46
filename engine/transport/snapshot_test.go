package transport_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
)

// source is a snapshot that counts the bytes read from each part.
type source struct {
	io.Reader // the manifest
	parts     []image.Part
	bytes     map[string][]byte

	mu   sync.Mutex
	read map[string]int
	stop func(name string, read int) // called after each read
}

const manifest = "what raft reads"

func newSource(sizes ...int) *source {
	s := &source{Reader: strings.NewReader(manifest), bytes: map[string][]byte{}, read: map[string]int{}}
	for i, size := range sizes {
		name := fmt.Sprintf("part-%02d", i)
		b := bytes.Repeat([]byte{byte(i + 1)}, size)
		s.bytes[name] = b
		s.parts = append(s.parts, image.Part{Name: name, Size: int64(size), Sum: sha256.Sum256(b)})
	}
	return s
}

func (s *source) Parts() []image.Part { return s.parts }

func (s *source) Open(name string) (io.ReadCloser, error) {
	return &partOf{s, name, bytes.NewReader(s.bytes[name])}, nil
}

func (s *source) sent() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

type partOf struct {
	s    *source
	name string
	*bytes.Reader
}

func (p *partOf) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.s.mu.Lock()
	p.s.read[p.name] += n
	read, stop := p.s.read[p.name], p.s.stop
	p.s.mu.Unlock()
	if stop != nil {
		stop(p.name, read)
	}
	return n, err
}
func (p *partOf) WriteTo(io.Writer) (int64, error) { panic("it is read") }
func (p *partOf) Close() error                     { return nil }

// staging keeps parts in memory.
type staging struct {
	mu    sync.Mutex
	users int
	parts map[string][]byte
	slow  func(name string) // called before each part
}

func newStaging() *staging { return &staging{parts: map[string][]byte{}} }

func (s *staging) Missing(parts []image.Part) ([]image.Part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []image.Part
	for _, p := range parts {
		if _, ok := s.parts[p.Name]; !ok {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

func (s *staging) Store(p image.Part, r io.Reader) error {
	s.mu.Lock()
	s.users++
	users, slow := s.users, s.slow
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.users--
		s.mu.Unlock()
	}()
	if users > 1 {
		return errors.New("two transfers use the staging at a time")
	}
	if slow != nil {
		slow(p.Name)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if int64(len(b)) != p.Size || sha256.Sum256(b) != p.Sum {
		return fmt.Errorf("part %s does not have its hash", p.Name)
	}
	s.mu.Lock()
	s.parts[p.Name] = b
	s.mu.Unlock()
	return nil
}

func (s *staging) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.parts)
}

// receiver answers snapshots as raft does.
func receiver(t *testing.T, g *transport.Group, got chan<- string) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case rpc := <-g.Consumer():
				b, err := io.ReadAll(rpc.Reader)
				if got != nil {
					got <- string(b)
				}
				request, _ := rpc.Command.(*raft.InstallSnapshotRequest)
				rpc.Respond(&raft.InstallSnapshotResponse{Term: request.Term, Success: true}, err)
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
}

func install(w *world, g *transport.Group, to string, s *source) (raft.InstallSnapshotResponse, error) {
	var resp raft.InstallSnapshotResponse
	s.Reader = strings.NewReader(manifest)
	err := g.InstallSnapshot(raft.ServerID(to), raft.ServerAddress(w.at[to]), &raft.InstallSnapshotRequest{
		RPCHeader: raft.RPCHeader{ID: []byte(w.idAt(g.LocalAddr()))}, Term: 7, Size: int64(len(manifest)), Configuration: []byte("members"),
	}, &resp, s)
	return resp, err
}

// pairOf returns a sender at a and a receiver at b.
func pairOf(t *testing.T, net *memnet.Net) (w *world, a, b *transport.Group, s *staging) {
	t.Helper()
	w = newWorld(t, net, "a", "b")
	a, b, s = w.group("a"), w.group("b"), newStaging()
	b.Stage(s)
	return w, a, b, s
}

func TestASnapshotArrivesWhole(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, net *memnet.Net) {
		w, a, b, staged := pairOf(t, net)
		got := make(chan string, 1)
		receiver(t, b, got)
		src := newSource(0, 1, transport.MaxFrame, transport.MaxFrame+1, 3<<20)
		resp, err := install(w, a, "b", src)
		if err != nil || !resp.Success || resp.Term != 7 {
			t.Fatalf("%+v, %v", resp, err)
		}
		if text := <-got; text != manifest {
			t.Fatalf("the manifest arrives as %q", text)
		}
		for name, want := range src.bytes {
			if !bytes.Equal(staged.parts[name], want) {
				t.Errorf("%s has %d bytes, not %d", name, len(staged.parts[name]), len(want))
			}
		}
		if resp, err = install(w, a, "b", src); err != nil || !resp.Success {
			t.Fatalf("%+v, %v", resp, err)
		}
		<-got
		for name, read := range src.sent() {
			if read != len(src.bytes[name]) {
				t.Errorf("%s was sent twice: %d bytes of %d", name, read, len(src.bytes[name]))
			}
		}
	})
}

func TestABrokenTransferGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	const size = 400 << 10
	for part := range 4 {
		for _, at := range []int{1, size / 2, size} {
			t.Run(fmt.Sprintf("part %d at %d", part, at), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					net := memnet.New()
					w, a, b, staged := pairOf(t, net)
					receiver(t, b, nil)
					src := newSource(size, size, size, size)
					var once sync.Once
					src.stop = func(name string, read int) {
						if name == fmt.Sprintf("part-%02d", part) && read >= at {
							once.Do(func() {
								synctest.Wait() // all sent parts are stored
								net.Break("a", "b")
							})
						}
					}
					if _, err := install(w, a, "b", src); err == nil {
						t.Fatal("the transfer was broken and did not fail")
					}
					if staged.count() != part {
						t.Fatalf("%d parts are staged, not %d", staged.count(), part)
					}
					var resp raft.InstallSnapshotResponse
					eventually(t, "the next transfer", func() (ok bool) {
						var err error
						resp, err = install(w, a, "b", src)
						return err == nil
					})
					if !resp.Success || staged.count() != 4 {
						t.Fatalf("%+v, %d parts", resp, staged.count())
					}
					for i, p := range src.parts {
						if read := src.sent()[p.Name]; i != part && read != size {
							t.Errorf("of %s %d bytes were sent, not %d", p.Name, read, size)
						}
					}
				})
			})
		}
	}
}

func TestASilentTransferEnds(t *testing.T) {
	t.Parallel()
	for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
		t.Run(way[0]+way[1], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				net := memnet.New()
				w, a, b, staged := pairOf(t, net)
				receiver(t, b, nil)
				src := newSource(1, 1<<20)
				src.stop = func(name string, _ int) {
					if name == "part-01" {
						synctest.Wait() // the part before has arrived
						net.Cut(way[0], way[1])
					}
				}
				start := time.Now()
				if _, err := install(w, a, "b", src); err == nil {
					t.Error("it did not end with an error")
				}
				if took := time.Since(start); took < 5*time.Second || took > time.Minute {
					t.Errorf("it ended after %v", took)
				}
				net.Heal()
				if staged.count() < 1 {
					t.Error("the part that had arrived is lost")
				}
			})
		})
	}
}

func TestASlowReceiverIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, a, b, staged := pairOf(t, memnet.New())
		receiver(t, b, nil)
		staged.slow = func(string) { time.Sleep(5 * time.Minute) } // a disk that hangs for a while
		if resp, err := install(w, a, "b", newSource(1<<20, 1<<20)); err != nil || !resp.Success {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

func TestANewerTransferEndsTheOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b", "c")
		a, b, c, staged := w.group("a"), w.group("b"), w.group("c"), newStaging()
		b.Stage(staged)
		receiver(t, b, nil)
		slow, began := newSource(10, 1<<20), make(chan bool)
		hold := make(chan bool)
		var once sync.Once
		slow.stop = func(name string, _ int) {
			if name == "part-01" {
				once.Do(func() {
					close(began)
					<-hold
				})
			}
		}
		older := make(chan error)
		go func() {
			_, err := install(w, a, "b", slow)
			older <- err
		}()
		<-began
		quick := newSource(10, 1<<20)
		if resp, err := install(w, c, "b", quick); err != nil || !resp.Success {
			t.Errorf("%+v, %v", resp, err)
		}
		close(hold)
		if err := <-older; err == nil {
			t.Error("the older transfer did not fail")
		}
		if quick.sent()["part-00"] != 0 {
			t.Error("the newer sent what the older had brought")
		}
	})
}

// TestSnapshotsAtATimeAreBounded checks that a host of a hundred groups that was away does not receive a
// hundred snapshots at once.
func TestSnapshotsAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	const groups, at = 10, 4
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b")
		var mu sync.Mutex
		now, most := 0, 0
		done := make(chan error, groups)
		for i := range groups {
			var ends []*transport.Group
			for _, id := range w.ids {
				g, err := w.node[id].Group(fmt.Sprint(i), incarnation)
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				ends = append(ends, g)
			}
			staged := newStaging()
			staged.slow = func(string) {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				now--
				mu.Unlock()
			}
			ends[1].Stage(staged)
			receiver(t, ends[1], nil)
			go func() {
				_, err := install(w, ends[0], "b", newSource(10))
				done <- err
			}()
		}
		for range groups {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if most != at {
			t.Errorf("%d were sent at a time, not %d", most, at)
		}
	})
}

// bare is a snapshot without parts.
type bare struct{ io.Reader }

func TestSnapshotsAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, a, b, staged := pairOf(t, memnet.New())
		receiver(t, b, nil)
		refused := func(what, says string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", what, err)
			}
		}
		try := func() error {
			_, err := install(w, a, "b", newSource(10, 1<<20))
			return err
		}
		b.Stage(nil)
		refused("no staging", "takes no snapshots", try())
		b.Stage(staged)
		b.Admit(func(string) bool { return false })
		refused("a sender who may not speak", "may not speak", try())
		b.Admit(nil)
		other, err := w.node["a"].Group("others", entry.Incarnation{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		_, err = install(w, other, "b", newSource(1))
		refused("a group that is not open", "is not open", err)

		src := newSource(10, 1<<20)
		src.bytes["part-01"][77]++
		_, err = install(w, a, "b", src)
		refused("a part that was changed", "does not have its hash", err)
		if _, ok := staged.parts["part-01"]; ok {
			t.Error("it was kept")
		}
		src = newSource(10, 1<<20)
		src.bytes["part-01"] = src.bytes["part-01"][1:]
		_, err = install(w, a, "b", src)
		refused("a part that is too short", "early", err)
		src = newSource(1)
		src.parts[0].Name = "../escaped"
		_, err = install(w, a, "b", src)
		refused("a part of a name that leads away", "", err)

		var resp raft.InstallSnapshotResponse
		send := func(size int64, data io.Reader) error {
			return a.InstallSnapshot("b", raft.ServerAddress(w.at["b"]), &raft.InstallSnapshotRequest{Size: size}, &resp, data)
		}
		refused("no parts at all", "has none", send(1, bare{strings.NewReader("x")}))
		src = newSource()
		src.Reader = strings.NewReader(manifest)
		refused("a manifest of another size", "not 3", send(3, src))
		src.Reader = io.LimitReader(zeros{}, transport.MaxManifest+1)
		refused("a manifest that is too long", "more than", send(transport.MaxManifest+1, src))
		src.Reader = io.LimitReader(zeros{}, transport.MaxManifest)
		if err := send(transport.MaxManifest, src); err != nil {
			t.Errorf("the longest manifest: %v", err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestClosingTheGroupEndsATransfer(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"sender", "receiver"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, a, b, _ := pairOf(t, memnet.New())
				src := newSource(10)
				failed := make(chan error)
				go func() {
					_, err := install(w, a, "b", src) // no raft at b answers it
					failed <- err
				}()
				time.Sleep(time.Hour)
				if end == "sender" {
					_ = a.Close()
				} else {
					_ = b.Close()
				}
				if err := <-failed; err == nil {
					t.Error("it did not fail")
				}
			})
		})
	}
}
