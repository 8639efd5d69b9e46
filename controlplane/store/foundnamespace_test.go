package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
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

// wantRole fails the test unless the document of namespace x has the incarnations of a name, and its first member the
// role; "" = it has no member.
func (w *world) wantRole(step, role, name string) {
	w.t.Helper()
	var want []entry.Incarnation
	if name != "" {
		want = []entry.Incarnation{entry.Incarnation(minted(name)[0])}
	}
	d, got := w.doc("ns_x"), ""
	if len(d.Members) > 0 {
		got = d.Members[0].Role
	}
	if got != role || !slices.Equal(d.Incarnations, want) {
		w.t.Errorf("%s: the document has the role %q and the incarnations %v, want %q and %v", step, got, d.Incarnations, role, want)
	}
}

// Every document has the incarnations of the create op. It lets the store found the groups until the founding is
// recorded, and never again.
func TestDocumentsLetAStoreFoundOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newHost("h1"), start("h1", "a"), newNamespace("org_acme", "x"))
	w.wantRole("created", "", "x")
	w.ok(place("x", "a"))
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
	w.ok(newOrg("acme"), newHost("h1"), start("h1", "a"))
	// No proposer of this version proposes the op, but logs have it.
	if _, err := w.try(encode(t, FeatureLevel, w.clockNs, ofBefore(newNamespace("org_acme", "x")))); err != nil {
		t.Fatal(err)
	}
	w.ok(place("x", "a"))
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

// A store that is lost before the founding is recorded is replaced, once, by one that founds with new incarnations.
// The founding of the lost store is refused from then on.
func TestALostFounderIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newHost("h1"), newHost("h2"), start("h1", "a"), start("h2", "c"))
	w.ok(newNamespace("org_acme", "x"), place("x", "a"))
	replacement := func(store string) *PlaceNamespace {
		o := place("x", store)
		o.Incarnations = minted("y")
		return o
	}
	w.refused(api.StateConflict, replacement("c")) // the store is there
	w.ok(start("h1", "b"))
	many := replacement("c")
	many.Incarnations = append(many.Incarnations, minted("z")...)
	w.refused(api.StateConflict, many)
	w.ok(replacement("c"))
	w.refused(api.StateConflict, replacement("c")) // it has another generation
	w.wantRole("replaced", wire.Found, "y")
	if n := w.namespace("ns_x"); !listed(n, "c") || n.Members[0].Lost || n.Generation != 2 {
		t.Errorf("the namespace is %+v", n)
	}
	for name, want := range map[string]int{"h1": 0, "h2": 1} {
		if h, err := w.store().Host(t.Context(), name); err != nil || h.Namespaces != want || h.Lost != 0 {
			t.Errorf("host %s has %d namespaces, %d of them lost (%v)", name, h.Namespaces, h.Lost, err)
		}
	}
	late := found("x")
	late.Generation = 2
	w.refused(api.StateConflict, late)
	late.Incarnations = minted("y")
	w.ok(late, start("h2", "d"))
	again := replacement("b")
	again.Generation = 2
	w.refused(api.StateConflict, again) // its data is lost, and an operator decides
	w.ok(newNamespace("org_acme", "new"))
	first := place("new", "b")
	first.Incarnations = minted("new")
	w.refused(api.StateConflict, first)
}

// A founder that is lost may be replaced by another store of its own host.
func TestALostFounderIsReplacedOnItsHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newHost("h1"), start("h1", "a"), newNamespace("org_acme", "x"), place("x", "a"), start("h1", "b"))
	o := place("x", "b")
	o.Incarnations = minted("y")
	w.ok(o)
	if n := w.namespace("ns_x"); !listed(n, "b") || n.Members[0].Lost || n.Generation != 2 {
		t.Errorf("the namespace is %+v", n)
	}
	w.wantRole("replaced", wire.Found, "y")
}

// listed reports whether the list of a namespace's members has exactly these stores, in order.
func listed(n fleet.Namespace, stores ...string) bool {
	return slices.EqualFunc(n.Listed(), stores, func(m fleet.GroupMember, store string) bool { return m.Store == "store_"+store })
}
