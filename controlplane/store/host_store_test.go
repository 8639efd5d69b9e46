package store

import (
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
)

// start is the join of a process that has just started on a store; again is a later join of its run.
func start(host, store string) *JoinHost { return again(host, store, 0) }

func again(host, store string, run int64) *JoinHost {
	o := join(host, "http://"+host)
	o.Store, o.Run = "store_"+store, run
	return o
}

// run returns the number that a join was answered with.
func (w *world) run(o *JoinHost) int64 {
	w.t.Helper()
	w.ok(o)
	return w.apply(again(o.Id[len("host_"):], o.Store[len("store_"):], w.newestRun(o.Id)))[0].(*JoinHostResult).Run
}

func (w *world) newestRun(host string) int64 {
	w.t.Helper()
	h, err := w.store().Host(w.t.Context(), host)
	if err != nil {
		w.t.Fatal(err)
	}
	return h.Run
}

// Each process that starts gets the next number of its host. An older one is refused, whatever it says of its
// address, and changes nothing.
func TestTheNewestProcessOfAStoreIsTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newHost("h1"))
	for want := range int64(3) {
		if got := w.run(start("h1", "a")); got != want+1 {
			t.Fatalf("start %d got run %d", want+1, got)
		}
	}
	older := again("h1", "a", 2)
	older.Address = "http://older"
	refusal := w.refused(api.StateConflict, older)
	if refusal.Details["store"] != "store_a" || refusal.Details["address"] != "http://h1" {
		t.Errorf("the refusal has %v", refusal.Details)
	}
	w.ok(again("h1", "a", 3))
	w.ok(again("h1", "a", 9)) // the control plane has lost changes
	if got := w.newestRun("host_h1"); got != 9 {
		t.Errorf("the newest run is %d", got)
	}
	w.reopen()
	w.refused(api.StateConflict, again("h1", "a", 8))
}

// A store belongs to its first host for ever, and a gateway has none.
func TestAStoreHasOneHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newHost("h1"), newHost("h2"), newGateway("g1"), start("h1", "a"), start("h1", "b"))
	for _, store := range []string{"a", "b"} {
		refusal := w.refused(api.StateConflict, start("h2", store))
		if refusal.Details["store"] != "store_"+store {
			t.Errorf("the refusal has %v", refusal.Details)
		}
	}
	gateway := start("h1", "c")
	gateway.Id = "host_g1"
	w.refused(api.StateConflict, gateway)
	w.limits.stores = 2
	w.refused(api.Conflict, start("h1", "c"))
	w.ok(start("h1", "a"))
}

// A host that joins with another store has lost the first, and the namespaces there: their documents name the
// old store. They are served again once the host joins with it.
func TestAnotherStoreLosesTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newHost("h1"), start("h1", "a"))
	w.ok(newNamespace("org_acme", "y"), place("y", "a"), newNamespace("org_acme", "x"), place("x", "a"))
	last, _ := w.changes.watch()
	w.ok(start("h1", "b"))
	if docs := w.docs(last); len(docs) != 2 || !onStore(docs[0], "store_a") || !onStore(docs[1], "store_a") {
		t.Errorf("the documents after the loss: %+v", docs)
	}
	w.wantStore("store_b", 2)
	if n := w.namespace("ns_x"); !listed(n, "a") || !n.Members[0].Lost {
		t.Errorf("the namespace: %+v", n)
	}
	w.ok(newNamespace("org_acme", "new"), place("new", "b"))
	if d := w.doc("ns_new"); !onStore(d, "store_b") {
		t.Errorf("a new namespace is on %+v", d.Members)
	}
	w.refused(api.StateConflict, again("h1", "a", 1))
	w.ok(start("h1", "a"))
	w.wantStore("store_a", 1)
	if n := w.namespace("ns_x"); n.Members[0].Lost {
		t.Errorf("the namespace: %+v", n)
	}
	w.ok(deletion("new"), removal("new"))
	w.wantStore("store_a", 0)
	if d := w.doc("ns_new"); d.Desired != wire.Absent || !onStore(d, "store_b") {
		t.Errorf("the document of a deleted namespace: %+v", d)
	}
}

// onStore reports whether a document has the store as its only member.
func onStore(d wire.Doc, store string) bool {
	return len(d.Members) == 1 && d.Members[0].Store == store
}

// wantStore fails the test unless host h1 has the store and so many namespaces on lost ones.
func (w *world) wantStore(store string, lost int) {
	w.t.Helper()
	h, err := w.store().Host(w.t.Context(), "h1")
	if err != nil || h.Store != store || h.Lost != lost {
		w.t.Errorf("the host has store %s and %d lost namespaces (%v), want %s and %d", h.Store, h.Lost, err, store, lost)
	}
}
