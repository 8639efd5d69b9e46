package transport_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// TestARefusalIsNoSilence checks that the error of a call tells a peer that refuses, or is refused, from a
// peer that cannot be reached.
func TestARefusalIsNoSilence(t *testing.T) {
	t.Parallel()
	ours, theirs := transporttest.NewAuthority(), transporttest.NewAuthority()
	for name, x := range map[string]struct {
		id           string
		caller       transport.Identity
		to           string // "" = any node at the address
		refused      bool
		unauthorized bool
	}{
		"of another authority":                                 {"x", theirs.Identity("x"), "b", true, true},
		"with the peer's certificate out of date for it alone": {"x", ours.IdentityUntil("x", time.Now().Add(-time.Hour)), "", true, true},
		"that calls another than answers":                      {"x", anyone{ours.Identity("x")}, "c", true, true},
		"of the peer's own ID":                                 {"b", ours.Identity("b"), "", true, false},
		"of an old TLS":                                        {"x", old{ours.Identity("x")}, "b", true, false},
		"nobody answers":                                       {"x", ours.Identity("x"), "gone", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			networks(t, func(t *testing.T, mem *memnet.Net) {
				w := newWorld(t, mem)
				w.open("b", ours.Identity("b")).Handle(ask, echo)
				c := w.config(x.id, x.caller)
				caller, err := transport.Open(c)
				if err != nil {
					t.Fatal(err)
				}
				defer caller.Close()
				to := transport.Peer{ID: x.to, Address: w.at["b"]}
				if x.to == "gone" {
					l := w.listen("gone")
					to.Address = l.Addr().String()
					_ = l.Close()
				}
				for range 2 { // the second attempt returns the error of the first
					_, err = caller.Call(within(t), to, ask, nil)
					if !transport.Unsent(err) {
						t.Errorf("it may have been sent: %v", err)
					}
					if got := errors.Is(err, transport.ErrRefused); got != x.refused {
						t.Errorf("refused %v: %v", got, err)
					}
					want := api.LeaderUnavailable
					if x.unauthorized {
						want = api.Unauthorized
					}
					if got := api.CodeOf(err); got != want {
						t.Errorf("%s, not %s: %v", got, want, err)
					}
				}
				g, err := caller.Group(group, incarnation)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := g.Call(within(t), to, ask, nil); !transport.Unsent(err) || api.CodeOf(err) != api.LeaderUnavailable {
					t.Errorf("a call in a group: %v", err)
				}
				_, err = caller.Call(within(t), to, ask, nil)
				if name == "of another authority" && !errors.As(err, new(x509.UnknownAuthorityError)) {
					t.Errorf("the cause is lost: %v", err)
				}
				if x.to == "gone" && !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("the cause is lost: %v", err)
				}
			})
		})
	}
}

// anyone accepts every node that it reaches.
type anyone struct{ transport.Identity }

func (a anyone) Client(string) *tls.Config { return a.Identity.Client("") }

// helloOf returns the first frame of a node that speaks the given version. Its first three fields never
// change.
func helloOf(version uint64, node string) []byte {
	payload := binary.AppendUvarint([]byte("CORV"), version)
	payload = append(binary.AppendUvarint(payload, uint64(len(node))), node...)
	payload = append(payload, "what later versions say"...)
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	frame = append(frame, make([]byte, 12)...) // request and group
	frame = append(frame, 1, 0)                // a hello, in one frame
	return append(frame, payload...)
}

func TestAnotherVersionIsRefusedInWords(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, mem *memnet.Net) {
		w := newWorld(t, mem)
		ids := transporttest.NewAuthority()
		b := w.open("b", ids.Identity("b"))

		// The other version dials.
		dial := func(_ context.Context, address string) (net.Conn, error) { return net.Dial("tcp", address) }
		if mem != nil {
			dial = mem.Dialer("later")
		}
		raw, err := dial(t.Context(), w.at["b"])
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		c := tls.Client(raw, ids.Identity("later").Client("b"))
		if _, err := c.Write(helloOf(transport.Version+1, "later")); err != nil {
			t.Fatal(err)
		}
		says, err := io.ReadAll(c)
		if err != nil && len(says) == 0 || !strings.Contains(string(says), `node "later" speaks version 2`) {
			t.Errorf("%q, %v", says, err)
		}

		// This version dials.
		l := w.listen("later")
		defer l.Close()
		served := make(chan error, 1)
		go func() {
			raw, err := l.Accept()
			if err != nil {
				served <- err
				return
			}
			c := tls.Server(raw, ids.Identity("later").Server())
			_, err = c.Write(helloOf(transport.Version+1, "later"))
			_, _ = io.Copy(io.Discard, c) // until the hello was read
			_ = raw.Close()
			served <- err
		}()
		_, err = b.Call(within(t), transport.Peer{ID: "later", Address: l.Addr().String()}, ask, nil)
		if !errors.Is(err, transport.ErrRefused) || !transport.Unsent(err) || !strings.Contains(err.Error(), "bring both to the same release") {
			t.Errorf("%v", err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestASlowHandshakeEnds checks that a caller that sends its hello byte by byte gets no extra time.
func TestASlowHandshakeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		w := newWorld(t, mem, "b")
		for _, part := range []string{"TLS", "the hello"} {
			raw, err := mem.Dialer("x")(t.Context(), w.at["b"])
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			var c net.Conn = raw
			bytes := []byte{22, 3, 1, 200, 0} // the header of a record
			if part == "the hello" {
				c = tls.Client(raw, w.is["b"].Client("b"))
				bytes = helloOf(transport.Version, "x")
			}
			for i := 0; err == nil; i++ {
				_, err = c.Write(bytes[i%len(bytes) : i%len(bytes)+1])
				time.Sleep(300 * time.Millisecond)
				if time.Since(start) > time.Minute {
					t.Fatalf("%s takes a minute", part)
				}
			}
			if took := time.Since(start); took > 6*time.Second {
				t.Errorf("%s took %v", part, took)
			}
			_ = raw.Close()
		}
	})
}

// TestTheLongestNamesAreCarried checks that values of maximum length arrive.
func TestTheLongestNamesAreCarried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		id := strings.Repeat("n", 255)
		w := newWorld(t, memnet.New())
		authority := transporttest.NewAuthority()
		a := w.open("a", authority.Identity("a"))
		c := w.config("b", authority.Identity(id))
		c.NodeID, c.Info = id, make([]byte, transport.MaxInfo)
		at := c.Listener.Addr().String()
		c.Advertise = strings.Repeat("z", 255)
		b, err := transport.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		name := strings.Repeat("g", 255)
		var groups []*transport.Group
		for _, n := range []*transport.Transport{a, b} {
			g, err := n.Group(name, incarnation)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			g.Handle(1, func(context.Context, transport.Peer, []byte) ([]byte, error) { return []byte("here"), nil })
			groups = append(groups, g)
		}
		got, err := groups[0].Call(within(t), transport.Peer{ID: id, Address: at}, 1, nil)
		if err != nil || string(got) != "here" {
			t.Errorf("%q, %v", got, err)
		}
		if p := peerOf(a, id); len(p.Info) != transport.MaxInfo || p.Address != c.Advertise {
			t.Errorf("%d bytes of info, at %q", len(p.Info), p.Address)
		}
	})
}
