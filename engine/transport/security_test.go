package transport_test

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// without presents no certificate.
type without struct{ transport.Identity }

func (w without) Client(peerID string) *tls.Config {
	c := w.Identity.Client(peerID).Clone()
	c.Certificates = nil
	return c
}

// old speaks an older TLS version.
type old struct{ transport.Identity }

func (o old) Server() *tls.Config {
	c := o.Identity.Server().Clone()
	c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	return c
}

func (o old) Client(peerID string) *tls.Config {
	c := o.Identity.Client(peerID).Clone()
	c.MaxVersion = tls.VersionTLS12
	return c
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	ours, theirs := transporttest.NewAuthority(), transporttest.NewAuthority()
	past := time.Now().Add(-time.Hour)
	for name, x := range map[string]struct {
		id       string
		identity transport.Identity
	}{
		"no certificate":               {"x", without{ours.Identity("x")}},
		"another authority's":          {"x", theirs.Identity("x")},
		"an expired one":               {"x", ours.IdentityUntil("x", past)},
		"another node's":               {"x", ours.Identity("y")},
		"one that names nobody":        {"x", ours.Identity("")},
		"the called node's own":        {"b", ours.Identity("b")},
		"an old version of TLS":        {"x", old{ours.Identity("x")}},
		"one whose names are too long": {"x", ours.Identity(strings.Repeat("x", 300))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			networks(t, func(t *testing.T, net *memnet.Net) {
				w := newWorld(t, net)
				w.open("b", ours.Identity("b")).Handle(ask, echo)
				good := w.open("good", ours.Identity("good"))
				stranger, err := transport.Open(w.config(x.id, x.identity))
				if err != nil {
					t.Fatal(err)
				}
				defer stranger.Close()
				stranger.Handle(ask, echo)
				for _, to := range []transport.Peer{w.to("b"), {Address: w.at["b"]}} {
					if _, err := stranger.Call(within(t), to, ask, nil); !transport.Unsent(err) || !errors.Is(err, transport.ErrRefused) && to.ID != x.id {
						t.Errorf("it calls %v: %v", to, err)
					}
				}
				if p := peerOf(w.node["b"], "x"); p.Connected || p.Address != "" {
					t.Errorf("b knows it: %+v", p)
				}
				if name != "no certificate" { // only callers can lack a certificate
					_, err = good.Call(within(t), transport.Peer{ID: x.id + "x", Address: stranger.Address()}, ask, nil)
					if !transport.Unsent(err) {
						t.Errorf("it is called: %v", err)
					}
				}
				if _, err := good.Call(within(t), w.to("b"), ask, nil); err != nil {
					t.Errorf("a good node: %v", err)
				}
			})
		})
	}
}

func TestAnIdentityThatDoesNotVerifyIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memnet.New())
	c := w.config("a", lax{transporttest.Identities("a")["a"]})
	if n, err := transport.Open(c); err == nil {
		t.Error("it was taken")
		_ = n.Close()
	}
	_ = c.Listener.Close()
}

type lax struct{ transport.Identity }

func (l lax) Server() *tls.Config {
	c := l.Identity.Server().Clone()
	c.ClientAuth = tls.RequireAnyClientCert
	return c
}

// vote requests a vote from b's end of a group.
func vote(w *world, g *transport.Group, id string) error {
	return g.RequestVote("b", raft.ServerAddress(w.at["b"]), &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{ID: []byte(id)}, Term: 1,
	}, &raft.RequestVoteResponse{})
}

func TestWhoMayNotSpeakIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b")
		a, b := w.group("a"), w.group("b")
		b.Handle(1, echo)
		start := time.Now()
		refused := func(what, says string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), says) || time.Since(start) != 0 {
				t.Errorf("%s: %v after %v", what, err, time.Since(start))
			}
		}
		asked := ""
		b.Admit(func(id string) bool {
			asked = id
			return false
		})
		refused("a node not admitted", "may not speak", vote(w, a, "a"))
		_, err := a.Call(within(t), w.to("b"), 1, nil)
		refused("its call", "may not speak", err)
		if asked != "a" || !transport.Unsent(err) {
			t.Errorf("asked for %q, %v", asked, err)
		}
		b.Admit(nil)
		refused("a node that speaks for another", "speaks for", vote(w, a, "c"))

		asked = ""
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		other, err := w.node["a"].Group(group, entry.Incarnation{9})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		refused("another incarnation", "incarnation", vote(w, other, "a"))
		if asked != "" {
			t.Error("its sender was looked at")
		}
		_ = b.Close()
		refused("a group that is closed", "is not open", vote(w, other, "a"))
	})
}

// TestAConnectionMustSayWhoItIs checks that connections without a hello are bounded in time and number.
func TestAConnectionMustSayWhoItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		w := newWorld(t, mem, "b")
		dial := mem.Dialer("x")
		start := time.Now()
		var silent []net.Conn
		for range 256 {
			c, err := dial(t.Context(), w.at["b"])
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, c)
			synctest.Wait()
		}
		c, err := dial(t.Context(), w.at["b"])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || time.Since(start) != 0 {
			t.Errorf("one more than are allowed: %v after %v", err, time.Since(start))
		}
		for _, c := range append(silent, c) {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("it is spoken to")
			}
			_ = c.Close()
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("they were kept for %v", took)
		}
	})
}
