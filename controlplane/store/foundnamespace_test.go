package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// founding returns a founding of so many shards.
func founding(shards int) *FoundNamespace {
	o := &FoundNamespace{Id: "ns_a", Generation: 1}
	for i := range shards {
		o.Incarnations = append(o.Incarnations, hash(fmt.Sprint(i))[:16])
	}
	return o
}

// wantRole fails the test unless the document of namespace x has the role and the incarnations of a name.
func (w *world) wantRole(step, role, name string) {
	w.t.Helper()
	var want []entry.Incarnation
	if name != "" {
		want = []entry.Incarnation{entry.Incarnation(minted(name)[0])}
	}
	if d := w.doc("ns_x"); d.Role != role || !slices.Equal(d.Incarnations, want) {
		w.t.Errorf("%s: the document has the role %q and the incarnations %v, want %q and %v", step, d.Role, d.Incarnations, role, want)
	}
}

// Every document has the incarnations of the create op. It lets the store found the groups until the founding is
// recorded, and never again.
func TestDocumentsLetAStoreFoundOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newHost("h1"), start("h1", "a"), newNamespace("org_acme", "x"))
	w.wantRole("created", wire.Found, "x")
	w.ok(place("x", "h1"))
	w.wantRole("placed", wire.Found, "x")
	version := w.namespace("ns_x").Version
	other := found("x")
	other.Incarnations = minted("y")
	w.refused(api.StateConflict, other)
	many := found("x")
	many.Incarnations = append(minted("x"), minted("y")...)
	w.refused(api.StateConflict, many)
	w.ok(found("x"))
	w.wantRole("founded", wire.Join, "x")
	if n := w.namespace("ns_x"); n.Version != version || !n.Founded {
		t.Errorf("the founding has changed the namespace: %+v", n)
	}
	w.refused(api.StateConflict, other)
	w.ok(settle("x"), newKey(keyring.Namespace, "ns_x", "k1"))
	w.reopen()
	w.wantRole("settled", wire.Join, "x")
	w.ok(start("h1", "b")) // and not when the store is lost
	w.wantRole("the store is lost", wire.Join, "x")
}

// A namespace of an earlier version has no incarnations. It can be settled without them, and gets those that
// its host reports first, once.
func TestANamespaceOfBeforeGetsItsFirstIncarnations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newHost("h1"))
	// No proposer of this version proposes the op, but logs have it.
	if _, err := w.try(encode(t, FeatureLevel, w.clockNs, ofBefore(newNamespace("org_acme", "x")))); err != nil {
		t.Fatal(err)
	}
	w.ok(place("x", "h1"))
	w.wantRole("placed", wire.Found, "")
	w.ok(settle("x"))
	w.wantRole("settled", wire.Join, "")
	w.ok(found("x"))
	w.wantRole("reported", wire.Join, "x")
	other := found("x")
	other.Incarnations = minted("y")
	w.refused(api.StateConflict, other)
	before := w.dump()
	w.ok(found("x"))
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("the same report again has changed the state: %s", diff)
	}
	w.wantRole("reported again", wire.Join, "x")
}
