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

// open is a kind of call that impostors may make.
const open transport.Kind = 41

// keyOf returns the key of an identity's certificate.
func keyOf(t *testing.T, id transport.Identity) string {
	t.Helper()
	return transport.KeyOf(id.Server().Certificates[0].Leaf)
}

// secondOf opens a process with a node's ID and another key.
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

// acquainted returns nodes a and b, and an impostor with the ID of b. Node a knows b's key.
func acquainted(t *testing.T, mem *memnet.Net) (w *world, impostor *transport.Transport, identity transport.Identity) {
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
	impostor, identity = secondOf(t, w, a, "b")
	impostor.Handle(ask, func(context.Context, transport.Peer, []byte) ([]byte, error) { return []byte("the impostor"), nil })
	return w, impostor, identity
}

// TestAnImpostorIsRefused checks that an impostor is refused with the reason.
func TestAnImpostorIsRefused(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, mem *memnet.Net) {
		w, impostor, identity := acquainted(t, mem)
		// The impostor calls the node that knows the real one.
		key, err := impostor.Call(within(t), w.to("a"), open, nil)
		if err != nil || string(key) != keyOf(t, identity) {
			t.Fatalf("%q, %v", key, err)
		}
		if !w.node["a"].Impostor(transport.Peer{ID: "b", Key: string(key)}) {
			t.Error("it is taken for the node")
		}
		_, err = impostor.Call(within(t), w.to("a"), ask, nil)
		if err == nil || !strings.Contains(err.Error(), `another process holds node id "b"`) || !strings.Contains(err.Error(), "--node-id") {
			t.Errorf("a call that strangers may not make: %v", err)
		}
		heard := w.group("a")
		heard.Handle(ask, echo)
		end, err := impostor.Group(group, incarnation)
		if err != nil {
			t.Fatal(err)
		}
		defer end.Close()
		if _, err := end.Call(within(t), w.to("a"), ask, nil); err == nil || !strings.Contains(err.Error(), "another process holds") {
			t.Errorf("a group has heard the impostor: %v", err)
		}
		err = end.RequestVote("a", raft.ServerAddress(w.at["a"]), &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{})
		if err == nil || !strings.Contains(err.Error(), "another process holds") {
			t.Errorf("a vote: %v", err)
		}
		// Nor can it call the node whose ID it uses.
		_, err = impostor.Call(within(t), transport.Peer{Address: w.at["b"]}, open, nil)
		if api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), `another process holds node id "b"`) {
			t.Errorf("calling its namesake: %v", err)
		}
	})
}

// TestAnImpostorDoesNotTakeAKnownName checks that an impostor changes nothing for the real node.
func TestAnImpostorDoesNotTakeAKnownName(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, mem *memnet.Net) {
		w, impostor, identity := acquainted(t, mem)
		if _, err := impostor.Call(within(t), w.to("a"), open, nil); err != nil {
			t.Fatal(err)
		}
		// The node's address is unchanged.
		if got := w.node["a"].AddressOf("b"); got != w.at["b"] {
			t.Errorf("b is taken to be at %s, it is at %s", got, w.at["b"])
		}
		got, err := w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil)
		if err != nil || string(got) != "the node" {
			t.Errorf("%q, %v", got, err)
		}

		// A call to the impostor's address does not make a take the impostor for the real node, either.
		for range 2 {
			got, err = w.node["a"].Call(within(t), transport.Peer{Address: impostor.Address()}, ask, nil)
			if err != nil || string(got) != "the impostor" {
				t.Errorf("whoever answers at the address: %q, %v", got, err)
			}
		}
		if got := w.node["a"].AddressOf("b"); got != w.at["b"] {
			t.Errorf("b is taken to be at %s, it is at %s", got, w.at["b"])
		}
		if _, err := w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil); err != nil {
			t.Error(err)
		}
		w.node["a"].Learn("b", impostor.Address())
		_, err = w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil)
		if api.CodeOf(err) != api.Conflict || !errors.Is(err, transport.ErrRefused) {
			t.Errorf("the node at the address of a stranger: %v", err)
		}
		w.node["a"].Learn("b", w.at["b"])
		got, err = w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil)
		if err != nil || string(got) != "the node" {
			t.Errorf("after its address was learned: %q, %v", got, err)
		}

		// Once the impostor's key is the known one, it is accepted on its open connection.
		w.node["a"].Know("b", keyOf(t, identity))
		if got := w.node["a"].AddressOf("b"); got != impostor.Address() {
			t.Errorf("b is at %s now, not at %s", impostor.Address(), got)
		}
		if got, err := impostor.Call(within(t), w.to("a"), ask, nil); err != nil || string(got) != "the node" {
			t.Errorf("%q, %v", got, err)
		}
		if got, err = w.node["a"].Call(within(t), transport.Peer{ID: "b"}, ask, nil); err != nil || string(got) != "the impostor" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestAKnownNodeMoves checks that a node that has moved with its key is found at its new address, even after
// impostors with its name have opened more connections than a peer may have.
func TestAKnownNodeMoves(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, mem *memnet.Net) {
		a := transporttest.NewAuthority()
		w := newWorld(t, mem)
		node, known := w.open("a", a.Identity("a")), a.Identity("b")
		node.HandleAny(open, echo)
		node.Know("b", keyOf(t, known))
		for range 6 { // more connections than a peer may have
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

// TestAnAddressOfAnImpostorIsForgotten checks that an impostor's address and info are dropped once the real
// node's key is known.
func TestAnAddressOfAnImpostorIsForgotten(t *testing.T) {
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
