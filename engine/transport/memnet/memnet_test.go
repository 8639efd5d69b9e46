package memnet_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/corvo/corvo/engine/transport/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const window = 256 << 10 // bytes in flight in one direction

// pair returns a connection from a to b.
func pair(t *testing.T, n *memnet.Net) (a, b net.Conn) {
	t.Helper()
	l, err := n.Listen("b", 0)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = n.Dialer("a")(t.Context(), l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); err != nil || n != len(text) {
		t.Fatalf("%d bytes of %q, %v", n, text, err)
	}
}

func receive(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("%q, not %q: %v", got, text, err)
	}
}

// silent checks that nothing arrives for a second, and that the read ends with the deadline's error.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	start := time.Now()
	if err := c.SetReadDeadline(start.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if took := time.Since(start); took != time.Second {
		t.Fatalf("the deadline of a second came after %v", took)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, n *memnet.Net)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, memnet.New()) })
}

func TestAConnectionCarriesBothWays(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		send(t, a, "there")
		send(t, b, "back")
		receive(t, b, "there")
		receive(t, a, "back")
		if a.RemoteAddr().String() != b.LocalAddr().String() || a.LocalAddr().String() != b.RemoteAddr().String() {
			t.Errorf("%v-%v, %v-%v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
		}
	})
}

func TestBytesKeepTheirOrderAndWholeness(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		n.Delay("a", "b", 10*time.Millisecond)
		want := make([]byte, 3*window+17)
		_, _ = rand.Read(want)
		go func() {
			for rest := want; len(rest) > 0; {
				k := min(len(rest), 1+len(rest)/7)
				_, _ = a.Write(rest[:k])
				rest = rest[k:]
				n.Delay("a", "b", time.Duration(len(rest)%10)*time.Millisecond)
			}
			_ = a.Close()
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
		}
	})
}

func TestAWriterWaitsForRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		if k, err := a.Write(make([]byte, window+1)); k != window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d bytes, %v", k, err)
		}
		_ = a.SetWriteDeadline(time.Time{})
		go func() { _, _ = io.CopyN(io.Discard, b, 1) }()
		send(t, a, "x")
	})
}

func TestACutHoldsOneDirection(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		send(t, a, "on its way ")
		n.Cut("a", "b")
		send(t, a, "held")
		send(t, b, "other way")
		receive(t, a, "other way")
		silent(t, b)
		n.Heal()
		receive(t, b, "on its way held")
	})
}

func TestACutHoldsTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		n.Cut("a", "b")
		_ = a.Close()
		silent(t, b)
		send(t, b, "nobody says that a has gone")
		n.Heal()
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%v", err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write to nobody: %v", err)
		}
	})
}

func TestIsolationIsOfEverybody(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		n.Isolate("b")
		send(t, a, "there")
		send(t, b, "back")
		silent(t, a)
		silent(t, b)
		n.Heal()
		receive(t, a, "back")
		receive(t, b, "there")
	})
}

func TestAnIsolatedHostReachesItself(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		l, err := n.Listen("a", 7)
		if err != nil {
			t.Fatal(err)
		}
		n.Isolate("a")
		c, err := n.Dialer("a")(t.Context(), "a:7")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Close(), l.Close()
	})
}

func TestADialHangsWhilePacketsAreDropped(t *testing.T) {
	for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
		t.Run(way[0]+way[1], func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *memnet.Net) {
				l, _ := n.Listen("b", 7)
				defer l.Close()
				n.Cut(way[0], way[1])
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := n.Dialer("a")(ctx, "b:7"); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("%v", err)
				}
				time.AfterFunc(time.Hour, n.Heal)
				start := time.Now()
				c, err := n.Dialer("a")(t.Context(), "b:7")
				if err != nil || time.Since(start) != time.Hour {
					t.Fatalf("%v after %v", err, time.Since(start))
				}
				_ = c.Close()
			})
		})
	}
}

func TestADialIsRefusedWhereNobodyListens(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		l, _ := n.Listen("b", 7)
		if _, err := n.Listen("b", 7); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%v", err)
		}
		waiting, err := n.Dialer("a")(t.Context(), "b:7")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection that nobody accepted: %v", err)
		}
		for _, address := range []string{"b:7", "c:1", "b", "b:x"} {
			if _, err := n.Dialer("a")(t.Context(), address); err == nil {
				t.Errorf("%s answers", address)
			}
		}
	})
}

func TestABreakLosesWhatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		a2, b2 := pair(t, n)
		n.Delay("a", "b", time.Second)
		send(t, a, "lost")
		blocked := make(chan error)
		go func() {
			_, err := a2.Read(make([]byte, 1))
			blocked <- err
		}()
		synctest.Wait()
		n.Break("b", "a")
		for what, err := range map[string]error{"a reader that waits": <-blocked, "the one end": second(a.Write([]byte("x"))), "the other": second(b.Read(make([]byte, 9))), "b2": second(b2.Write([]byte("x")))} {
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: %v", what, err)
			}
		}
		a3, b3 := pair(t, n)
		send(t, a3, "a new one works")
		receive(t, b3, "a new one works")
	})
}

func second(_ int, err error) error { return err }

func TestDelayIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		start := time.Now()
		n.Delay("a", "b", 2*time.Second)
		send(t, a, "slow")
		n.Delay("a", "b", 0)
		send(t, a, " and not overtaken")
		send(t, b, "quick")
		receive(t, a, "quick")
		if took := time.Since(start); took != 0 {
			t.Errorf("the other way took %v", took)
		}
		receive(t, b, "slow and not overtaken")
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestADeadlineCanBeMoved(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		start := time.Now()
		_ = b.SetReadDeadline(start.Add(time.Hour))
		time.AfterFunc(time.Second, func() { _ = b.SetDeadline(start.Add(2 * time.Second)) })
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		_ = b.SetDeadline(time.Time{})
		send(t, a, "again")
		receive(t, b, "again")
	})
}

func TestCloseEndsWhoWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Net) {
		a, b := pair(t, n)
		ended := make(chan error, 2)
		go func() { ended <- second(a.Read(make([]byte, 1))) }()
		go func() { ended <- second(a.Write(make([]byte, 2*window))) }()
		synctest.Wait()
		_ = a.Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v", err)
			}
		}
		if k, err := io.Copy(io.Discard, b); k != window || err != nil {
			t.Errorf("%d bytes were on their way, %v", k, err)
		}
	})
}
