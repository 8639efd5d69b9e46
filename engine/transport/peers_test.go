package transport_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

func call(t testing.TB, w *world, from, to string) error {
	t.Helper()
	_, err := w.node[from].Call(within(t), w.to(to), ask, []byte("x"))
	return err
}

func TestPeersKnowEachOther(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, mem *memnet.Net) {
		w := newWorld(t, mem, "a", "b")
		w.node["b"].Handle(ask, echo)
		if _, err := w.node["a"].Call(within(t), transport.Peer{Address: w.at["b"]}, ask, nil); err != nil {
			t.Fatal(err)
		}
		for _, x := range [][2]string{{"a", "b"}, {"b", "a"}} {
			p := peerOf(w.node[x[0]], x[1])
			if !p.Connected || p.LastSeen.IsZero() {
				t.Errorf("%s is connected with %s: %v, at %v", x[0], x[1], p.Connected, p.LastSeen)
			}
			if p.Address != w.at[x[1]] || string(p.Info) != "about "+x[1] {
				t.Errorf("%s knows of %s: %q at %s", x[0], x[1], p.Info, p.Address)
			}
			if got := w.node[x[0]].AddressOf(x[1]); got != w.at[x[1]] {
				t.Errorf("%s is at %s, not %s", x[1], got, w.at[x[1]])
			}
		}
		if err := call(t, w, "a", "b"); err != nil {
			t.Error(err)
		}
		w.node["a"].Handle(ask, echo)
		if _, err := w.node["b"].Call(within(t), transport.Peer{ID: "a"}, ask, nil); err != nil {
			t.Errorf("b has learned where a is: %v", err)
		}
	})
}

func TestOffsetsAreMeasured(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ ahead, there, back time.Duration }{
		{0, 0, 0}, {3 * time.Second, 0, 0}, {-time.Hour, 5 * time.Millisecond, 5 * time.Millisecond},
		{time.Minute, 30 * time.Millisecond, 10 * time.Millisecond},
	} {
		t.Run(x.ahead.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mem := memnet.New()
				mem.Delay("a", "b", x.there)
				mem.Delay("b", "a", x.back)
				w := newWorld(t, mem)
				ids := transporttest.Identities("a", "b")
				w.open("a", ids["a"])
				c := w.config("b", ids["b"])
				c.Now = func() time.Time { return time.Now().Add(x.ahead) }
				b, err := transport.Open(c)
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				b.Handle(ask, echo)
				if _, err := w.node["a"].Call(within(t), transport.Peer{ID: "b", Address: b.Address()}, ask, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				for _, see := range []struct {
					by   *transport.Transport
					of   string
					want time.Duration
				}{{w.node["a"], "b", x.ahead}, {b, "a", -x.ahead}} {
					p := peerOf(see.by, see.of)
					if off := p.Offset - see.want; !p.Measured || off.Abs() > (x.there-x.back).Abs()/2 || p.RTT != x.there+x.back {
						t.Errorf("the clock of %s: %+v, not %v", see.of, p, see.want)
					}
				}
				mem.Break("a", "b")
				synctest.Wait()
				if p := peerOf(w.node["a"], "b"); p.Connected || p.Measured || p.LastSeen.IsZero() {
					t.Errorf("without a connection: %+v", p)
				}
			})
		})
	}
}

// TestASlowPingDoesNotMoveTheOffset checks that the offset of a peer's clock is that of the quickest of the
// newest pings, and that old pings stop counting.
func TestASlowPingDoesNotMoveTheOffset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		w := newWorld(t, mem, "a", "b")
		w.node["b"].Handle(ask, echo)
		if err := call(t, w, "a", "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		mem.Delay("a", "b", 500*time.Millisecond)
		time.Sleep(4 * time.Second)
		if p := peerOf(w.node["a"], "b"); p.Offset != 0 || p.RTT != 500*time.Millisecond {
			t.Errorf("%+v", p)
		}
		time.Sleep(10 * time.Second)
		if p := peerOf(w.node["a"], "b"); p.Offset != 250*time.Millisecond {
			t.Errorf("the way has been slow for long: %+v", p)
		}
	})
}

func TestAPeerThatComesBackIsFoundSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		w := newWorld(t, mem)
		var dials atomic.Int64
		ids := transporttest.Identities("a", "b")
		conf := w.config("a", ids["a"])
		dial := mem.Dialer("a")
		conf.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			dials.Add(1)
			return dial(ctx, address)
		}
		a, err := transport.Open(conf)
		if err != nil {
			t.Fatal(err)
		}
		w.node["a"] = a
		g := w.group("a")
		// Send the heartbeats of a hundred groups for a minute.
		for range 60 * 10 {
			for range 100 {
				if err := g.RequestVote("b", "b:77", &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{}); err == nil {
					t.Fatal("nobody answered")
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := dials.Load(); n < 200 || n > 700 {
			t.Errorf("a peer that was away for a minute was called %d times", n)
		}
		conf = w.config("b", ids["b"])
		_ = conf.Listener.Close()
		if conf.Listener, err = mem.Listen("b", 77); err != nil {
			t.Fatal(err)
		}
		b, err := transport.Open(conf)
		if err != nil {
			t.Fatal(err)
		}
		w.node["b"] = b
		b.Handle(ask, echo)
		start := time.Now()
		for {
			if _, err = a.Call(t.Context(), transport.Peer{ID: "b", Address: "b:77"}, ask, nil); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("it was found after %v", took)
		}
	})
}

func TestAPeerThatMovesIsFollowed(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, mem *memnet.Net) {
		w := newWorld(t, mem, "a", "b")
		w.node["b"].Handle(ask, echo)
		if err := call(t, w, "a", "b"); err != nil {
			t.Fatal(err)
		}
		if err := w.node["b"].Close(); err != nil {
			t.Fatal(err)
		}
		before := w.at["b"]
		w.open("b", w.is["b"]).Handle(ask, echo)
		after := w.at["b"]
		w.at["b"] = before // raft still has the old address
		w.node["a"].Learn("b", after)
		eventually(t, "b is called where it is now", func() bool { return call(t, w, "a", "b") == nil })

		// A wrong learned address does not hide the address that raft has.
		w.at["b"] = after
		w.node["a"].Learn("b", before)
		eventually(t, "b is called where raft has it", func() bool { return call(t, w, "a", "b") == nil })
		if got := w.node["a"].AddressOf("b"); got != after {
			t.Errorf("b has told %s, and is taken to be at %s", after, got)
		}
	})
}

func TestLearningAnAddressEndsTheOldConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b")
		w.node["b"].Handle(ask, echo)
		if err := call(t, w, "a", "b"); err != nil {
			t.Fatal(err)
		}
		w.node["a"].Learn("b", w.at["b"])
		if !peerOf(w.node["a"], "b").Connected {
			t.Error("the same address ended it")
		}
		w.node["a"].Learn("b", "b:1")
		synctest.Wait()
		if peerOf(w.node["a"], "b").Connected || peerOf(w.node["b"], "a").Connected {
			t.Error("it is still there")
		}
	})
}

func TestASilentConnectionEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		w := newWorld(t, mem, "a", "b")
		w.node["b"].Handle(ask, echo)
		if err := call(t, w, "a", "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if !peerOf(w.node["a"], "b").Connected {
			t.Fatal("an idle connection has ended")
		}
		mem.Isolate("b")
		// A ping of this very moment may still have been answered; then the fifth ping after it ends the
		// connection.
		time.Sleep(5*time.Second + 500*time.Millisecond)
		if peerOf(w.node["a"], "b").Connected || peerOf(w.node["b"], "a").Connected {
			t.Error("a dead connection is kept")
		}
		mem.Heal()
		eventually(t, "b is reached again", func() bool { return call(t, w, "a", "b") == nil })
	})
}

// TestABrokenConnectionIsNoticedAtOnce checks that a request fails with its connection, before its time
// limit.
func TestABrokenConnectionIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		w := newWorld(t, mem, "a", "b")
		a, _ := w.group("a"), w.group("b")
		failed := make(chan error)
		go func() { failed <- vote(w, a, "a") }() // nothing reads from b's Consumer
		synctest.Wait()
		start := time.Now()
		mem.Break("a", "b")
		if err := <-failed; err == nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		go func() { failed <- vote(w, a, "a") }()
		if err := <-failed; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != transport.RPCTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		go func() { failed <- vote(w, a, "a") }()
		synctest.Wait()
		start = time.Now()
		_ = a.Close()
		if err := <-failed; !errors.Is(err, raft.ErrTransportShutdown) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestOpenAndGroupRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memnet.New(), "a")
	for name, change := range map[string]func(c *transport.Config){
		"no ID":            func(c *transport.Config) { c.NodeID = "" },
		"a long ID":        func(c *transport.Config) { c.NodeID = strings.Repeat("x", 256) },
		"a long address":   func(c *transport.Config) { c.Advertise = strings.Repeat("x", 256) },
		"too much to tell": func(c *transport.Config) { c.Info = make([]byte, transport.MaxInfo+1) },
		"no identity":      func(c *transport.Config) { c.Identity = nil },
	} {
		c := w.config("x", w.is["a"])
		change(&c)
		if n, err := transport.Open(c); err == nil {
			t.Errorf("%s: taken", name)
			_ = n.Close()
		}
		_ = c.Listener.Close()
	}
	a := w.node["a"]
	g := w.group("a")
	for _, name := range []string{"", strings.Repeat("x", 256), group} {
		if _, err := a.Group(name, incarnation); err == nil {
			t.Errorf("group %q is opened", name)
		}
	}
	_ = g.Close()
	again := w.group("a")
	_ = again.Close()
}

// viscous is a connection that accepts long messages slowly once it is thick.
type viscous struct {
	net.Conn
	thick *atomic.Bool
}

func (v viscous) Write(b []byte) (int, error) {
	if v.thick.Load() && len(b) > transport.MaxFrame {
		time.Sleep(500 * time.Millisecond)
	}
	return v.Conn.Write(b)
}

// TestAPeerThatReadsSlowlyIsNotDead checks that a receiver is taken for alive while it still reads the bytes
// before a ping, however late its answer.
func TestAPeerThatReadsSlowlyIsNotDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		ids := transporttest.Identities("a", "b")
		w := newWorld(t, mem)
		w.open("b", ids["b"])
		c := w.config("a", ids["a"])
		dial, thick := mem.Dialer("a"), new(atomic.Bool)
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, address)
			return viscous{conn, thick}, err
		}
		a, err := transport.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		w.node["a"] = a
		w.node["b"].Handle(ask, echo)
		if err := call(t, w, "a", "b"); err != nil {
			t.Fatal(err)
		}
		thick.Store(true)
		mem.Cut("b", "a") // nothing is received
		failed := make(chan error)
		go func() {
			_, err := a.Call(context.Background(), w.to("b"), ask, make([]byte, transport.MaxCall))
			failed <- err
		}()
		time.Sleep(time.Minute)
		if !peerOf(a, "b").Connected {
			t.Error("the connection has ended while it was written to")
		}
		start := time.Now()
		if err := <-failed; err == nil || time.Since(start) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
