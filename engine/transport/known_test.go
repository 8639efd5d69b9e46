package transport_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// open is a kind of call that strangers may make.
const open transport.Kind = 41

// keyOf is the key that an identity shows.
func keyOf(t *testing.T, id transport.Identity) string {
	t.Helper()
	return transport.KeyOf(id.Server().Certificates[0].Leaf)
}

// secondOf is a process with another key under the ID of a node.
func secondOf(t *testing.T, w *world, a *transporttest.Authority, id string) (*transport.Transport, transport.Identity) {
	t.Helper()
	identity := a.Identity(id)
	c := w.config(id, identity)
	c.Key = keyOf(t, identity)
	n, err := transport.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n, identity
}

// acquainted are nodes a and b, and a stranger under the ID of b; a knows b.
func acquainted(t *testing.T, mem *memnet.Net) (w *world, stranger *transport.Transport, identity transport.Identity) {
	t.Helper()
	a := transporttest.NewAuthority()
	w = newWorld(t, mem)
	for _, id := range []string{"a", "b"} {
		w.is[id] = a.Identity(id)
		c := w.config(id, w.is[id])
		c.Key = keyOf(t, w.is[id])
		n, err := transport.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		w.node[id], w.at[id] = n, n.Address()
		n.HandleAny(open, func(_ context.Context, from transport.Peer, _ []byte) ([]byte, error) {
			return []byte(from.Key), nil
		})
		n.Handle(ask, func(context.Context, transport.Peer, []byte) ([]byte, error) { return []byte("the node"), nil })
	}
	w.node["a"].Know("b", keyOf(t, w.is["b"]))
	w.node["a"].Learn("b", w.at["b"])
	if err := call(t, w, "a", "b"); err != nil {
		t.Fatal(err)
	}
	stranger, identity = secondOf(t, w, a, "b")
	stranger.Handle(ask, func(context.Context, transport.Peer, []byte) ([]byte, error) { return []byte("the stranger"), nil })
	return w, stranger, identity
}

// A process that comes under the ID of a known node is told why nobody listens.
func TestAStrangerIsNotHeard(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, mem *memnet.Net) {
		w, stranger, identity := acquainted(t, mem)
		// The stranger calls the node that knows the other.
		key, err := stranger.Call(within(t), w.to("a"), open, nil)
		if err != nil || string(key) != keyOf(t, identity) {
			t.Fatalf("%q, %v", key, err)
		}
		if !w.node["a"].Stranger(transport.Peer{ID: "b", Key: string(key)}) {
			t.Error("it is taken for the node")
		}
		_, err = stranger.Call(within(t), w.to("a"), ask, nil)
		if err == nil || !strings.Contains(err.Error(), `another process holds node id "b"`) || !strings.Contains(err.Error(), "--node-id") {
			t.Errorf("a call that strangers may not make: %v", err)
		}
		heard := w.group("a")
		heard.Handle(ask, echo)
		end, err := stranger.Group(group, incarnation)
		if err != nil {
			t.Fatal(err)
		}
		defer end.Close()
		if _, err := end.Call(within(t), w.to("a"), ask, nil); err == nil || !strings.Contains(err.Error(), "another process holds") {
			t.Errorf("a group has heard the stranger: %v", err)
		}
		err = end.RequestVote("a", raft.ServerAddress(w.at["a"]), &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{})
		if err == nil || !strings.Contains(err.Error(), "another process holds") {
			t.Errorf("a vote: %v", err)
		}
		// Nor can it speak with the node whose ID it has.
		_, err = stranger.Call(within(t), transport.Peer{Address: w.at["b"]}, open, nil)
		if api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), `another process holds node id "b"`) {
			t.Errorf("calling its namesake: %v", err)
		}
	})
}

// A process that comes under the ID of a known node changes nothing for that node.
func TestAStrangerDoesNotTakeAKnownName(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, mem *memnet.Net) {
		w, stranger, identity := acquainted(t, mem)
		if _, err := stranger.Call(within(t), w.to("a"), open, nil); err != nil {
			t.Fatal(err)
		}
		// The node is where it was.
		if got := w.node["a"].AddressOf("b"); got != w.at["b"] {
			t.Errorf("b is taken to be at %s, it is at %s", got, w.at["b"])
		}
		got, err := w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil)
		if err != nil || string(got) != "the node" {
			t.Errorf("%q, %v", got, err)
		}

		// Nor does the node that knows the other take the stranger for it, when it calls
		// the stranger's address.
		for range 2 {
			got, err = w.node["a"].Call(within(t), transport.Peer{Address: stranger.Address()}, ask, nil)
			if err != nil || string(got) != "the stranger" {
				t.Errorf("whoever answers at the address: %q, %v", got, err)
			}
		}
		if got := w.node["a"].AddressOf("b"); got != w.at["b"] {
			t.Errorf("b is taken to be at %s, it is at %s", got, w.at["b"])
		}
		if _, err := w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil); err != nil {
			t.Error(err)
		}
		w.node["a"].Learn("b", stranger.Address())
		_, err = w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil)
		if api.CodeOf(err) != api.Conflict || !errors.Is(err, transport.ErrRefused) {
			t.Errorf("the node at the address of a stranger: %v", err)
		}
		w.node["a"].Learn("b", w.at["b"])
		got, err = w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil)
		if err != nil || string(got) != "the node" {
			t.Errorf("after its address was learned: %q, %v", got, err)
		}

		// Once the stranger is the known one it is heard, on the connection that it has.
		w.node["a"].Know("b", keyOf(t, identity))
		if got := w.node["a"].AddressOf("b"); got != stranger.Address() {
			t.Errorf("b is at %s now, not at %s", stranger.Address(), got)
		}
		if got, err := stranger.Call(within(t), w.to("a"), ask, nil); err != nil || string(got) != "the node" {
			t.Errorf("%q, %v", got, err)
		}
		if got, err = w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil); err != nil || string(got) != "the stranger" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A node that has moved with its key is found at its new address; the connections
// of strangers end none of its own.
func TestAKnownNodeMoves(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, mem *memnet.Net) {
		a := transporttest.NewAuthority()
		w := newWorld(t, mem)
		node, known := w.open("a", a.Identity("a")), a.Identity("b")
		node.HandleAny(open, echo)
		node.Know("b", keyOf(t, known))
		for range 6 { // more than a peer may have connections
			s, _ := secondOf(t, w, a, "b")
			if _, err := s.Call(within(t), w.to("a"), open, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := node.AddressOf("b"); got != "" {
			t.Errorf("the address of a stranger was learned: %s", got)
		}
		b := w.open("b", known)
		if _, err := b.Call(within(t), w.to("a"), open, nil); err != nil {
			t.Fatal(err)
		}
		if got := node.AddressOf("b"); got != b.Address() {
			t.Errorf("%s, not %s", got, b.Address())
		}
		before := b.Address()
		_ = b.Close()
		b = w.open("b", known)
		if _, err := b.Call(within(t), w.to("a"), open, nil); err != nil {
			t.Fatal(err)
		}
		if got := node.AddressOf("b"); got != b.Address() || got == before {
			t.Errorf("%s, not %s", got, b.Address())
		}
	})
}

// What a stranger has told before the node was known is forgotten.
func TestAnAddressOfAStrangerIsForgotten(t *testing.T) {
	t.Parallel()
	a := transporttest.NewAuthority()
	w := newWorld(t, memnet.New())
	node := w.open("a", a.Identity("a"))
	node.HandleAny(open, echo)
	s, _ := secondOf(t, w, a, "b")
	if _, err := s.Call(within(t), w.to("a"), open, nil); err != nil {
		t.Fatal(err)
	}
	if got := node.AddressOf("b"); got != s.Address() {
		t.Fatalf("%q", got)
	}
	node.Know("b", keyOf(t, a.Identity("b")))
	if got := node.AddressOf("b"); got != "" {
		t.Errorf("b is taken to be at %s", got)
	}
	if p := peerOf(node, "b"); p.Connected {
		t.Error("a stranger counts as a connection")
	}
}
