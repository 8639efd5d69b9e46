package server

import (
	"encoding/json"
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
)

// reachable records an address for the Raft members of a host that has joined, and returns the host's store.
func (f *front) reachable(id string) string {
	f.t.Helper()
	h, err := f.store.Host(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	f.propose(&store.JoinHost{
		Meta: &store.Meta{Principal: "test"}, Id: id, Address: h.Address, Version: h.Binary, Store: h.Store, Run: h.Run, Raft: id + ":7000",
	})
	return h.Store
}

// A host that leaves a namespace sees its documents and reports its usage until it has left. Then the host
// learns that it has left, and its usage is refused.
func TestALeavingHostIsAMemberUntilItHasLeft(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	one, oneCredential := f.host("one", keyring.Host)
	two, twoCredential := f.host("two", keyring.Host)
	old, next := f.join(oneCredential, "http://one.test"), f.join(twoCredential, "http://two.test")
	f.reachable(one)
	to := f.reachable(two)
	ns := f.namespace("acme", "mine")
	f.settle(ns, one)
	stream := f.follow(t, old, 0)
	document := func(desired, role string) {
		t.Helper()
		m, ok := stream.next()
		var d wire.Doc
		for ok && d.Kind != wire.KindPlacement { // heartbeats and keys
			if m.Doc != nil {
				if err := json.Unmarshal(m.Doc, &d); err != nil {
					t.Fatal(err)
				}
			}
			if d.Kind != wire.KindPlacement {
				m, ok = stream.next()
			}
		}
		got := ""
		for _, m := range d.Members {
			if m.Host == one {
				got = m.Role
			}
		}
		if d.Desired != desired || got != role {
			t.Errorf("the host is told %s as %q: %+v", d.Desired, got, d)
		}
	}
	send := func(key string, seq uint64, code api.Code) {
		t.Helper()
		a := f.send("POST", wire.UsagePath, key, f.frame(ns, "shard/0", seq, seq))
		if got := a.status == 200; got != (code == "") || code != "" && a.problem(t).Code != code {
			t.Errorf("usage %d: %d %s, want %q", seq, a.status, a.body, code)
		}
	}
	document(wire.Open, wire.Join)
	send(next, 1, api.Forbidden)
	meta := &store.Meta{Principal: "test"}
	f.propose(&store.PlaceNamespace{Meta: meta, Id: ns, Generation: f.generation(ns), Stores: []string{to}})
	document(wire.Open, wire.Leaving)
	send(old, 1, "")
	send(next, 2, "")
	f.propose(&store.SettleNamespace{Meta: meta, Id: ns, Generation: f.generation(ns), Configurations: []uint64{9}})
	document(wire.Leave, "")
	send(old, 3, api.Forbidden)
	send(next, 3, "")
}
