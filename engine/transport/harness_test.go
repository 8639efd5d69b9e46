package transport_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// The tests of this package use these words. A world is a set of named nodes that trust each other, on real
// TCP or on a network in memory; networks runs a test on both. A node is a Transport. A group is one Raft
// group of a node, as Raft sees it. A peer is another node as a node knows it. echo answers a call with its
// request. within is the deadline of everything that must happen, and eventually polls a condition that has
// no event.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const group = "orders"

var incarnation = entry.Incarnation{1, 2, 3}

// world is a set of nodes on TCP or on a network in memory.
type world struct {
	t    testing.TB
	net  *memnet.Net // nil = real TCP
	ids  []string
	is   map[string]transport.Identity
	node map[string]*transport.Transport
	at   map[string]string // the nodes' addresses
}

func newWorld(t testing.TB, net *memnet.Net, ids ...string) *world {
	t.Helper()
	w := &world{
		t: t, net: net, ids: ids, is: transporttest.Identities(ids...),
		node: map[string]*transport.Transport{}, at: map[string]string{},
	}
	for _, id := range ids {
		w.open(id, w.is[id])
	}
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	for _, n := range w.node {
		if err := n.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) listen(host string) net.Listener {
	w.t.Helper()
	var l net.Listener
	var err error
	if w.net != nil {
		l, err = w.net.Listen(host, 0)
	} else {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) config(id string, identity transport.Identity) transport.Config {
	c := transport.Config{
		NodeID: id, Listener: w.listen(id), Identity: identity, Info: []byte("about " + id),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if w.net != nil {
		c.Dial = w.net.Dialer(id)
	}
	return c
}

func (w *world) open(id string, identity transport.Identity) *transport.Transport {
	w.t.Helper()
	n, err := transport.Open(w.config(id, identity))
	if err != nil {
		w.t.Fatal(err)
	}
	w.node[id], w.at[id] = n, n.Address()
	return n
}

// to returns a node with its address.
func (w *world) to(id string) transport.Peer { return transport.Peer{ID: id, Address: w.at[id]} }

// idAt returns the node at an address.
func (w *world) idAt(address raft.ServerAddress) string {
	for id, at := range w.at {
		if at == string(address) {
			return id
		}
	}
	return ""
}

func (w *world) group(id string) *transport.Group {
	w.t.Helper()
	g, err := w.node[id].Group(group, incarnation)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = g.Close() })
	return g
}

// networks runs a test on real TCP and in memory.
func networks(t *testing.T, test func(t *testing.T, net *memnet.Net)) {
	t.Run("tcp", func(t *testing.T) {
		t.Parallel()
		test(t, nil)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, memnet.New())
	})
}

// within returns a context of one minute; only a failing test takes that long.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a minute has passed, and not: %s", what)
		}
	}
}

func peerOf(n *transport.Transport, id string) transport.PeerStatus {
	all := n.Peers()
	i := slices.IndexFunc(all, func(p transport.PeerStatus) bool { return p.ID == id })
	if i < 0 {
		return transport.PeerStatus{}
	}
	return all[i]
}

// echo answers a call with its request.
func echo(_ context.Context, _ transport.Peer, request []byte) ([]byte, error) { return request, nil }
