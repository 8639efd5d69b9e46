package store

import (
	"bytes"
	"slices"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// recovery refounds a namespace of one shard from the copy of a store.
func recovery(name string, generation int64, store string) *RecoverNamespace {
	return &RecoverNamespace{Meta: by("op"), Id: "ns_" + name, Generation: generation, Store: "store_" + store, Incarnations: [][]byte{bytes.Repeat([]byte{9}, 16)}}
}

// A recovered namespace has one member and new incarnations. The document names the earlier ones until the namespace has
// all its members.
func TestRecoverNamespace(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "h1", "h2", "h3", "h4")
	w.ok(newReplicated(3), place("x", "h1", "h2", "h3"))
	w.refused(api.StateConflict, recovery("x", 1, "h1")) // not founded
	w.ok(found("x"), settle("x", 9))
	earlier := w.namespace("ns_x").Incarnations
	w.refused(api.NotFound, recovery("nobody", 1, "h1"))
	w.refused(api.StateConflict, recovery("x", 2, "h1"))
	w.refused(api.StateConflict, recovery("x", 1, "h4")) // no member
	w.ok(pause("x"))
	w.refused(api.StateConflict, recovery("x", 1, "h1"))
	w.ok(resume("x"), recovery("x", 1, "h2"))
	w.refused(api.StateConflict, recovery("x", 1, "h2"))
	w.refused(api.StateConflict, recovery("x", 2, "h2")) // the same incarnations
	fresh := []entry.Incarnation{entry.Incarnation(bytes.Repeat([]byte{9}, 16))}
	check := func(earlier []entry.Incarnation, members ...string) {
		t.Helper()
		w.wantMembers("recovered", members...)
		if d := w.doc("ns_x"); !slices.Equal(d.Earlier, earlier) || !slices.Equal(d.Incarnations, fresh) {
			t.Errorf("%+v", d)
		}
	}
	check(earlier, "h2 recover")
	if n := w.namespace("ns_x"); n.Generation != 2 || n.Spec.Replicas != 3 || len(n.Members) != 1 || n.Configurations != nil {
		t.Errorf("%+v", n)
	}
	w.reopen()
	w.ok(atGeneration(2, settle("x", 5)))
	check(earlier, "h2 recover")
	w.ok(atGeneration(2, place("x", "h2", "h3", "h4")), atGeneration(3, settle("x", 7)))
	check(nil, "h2 join", "h3 join", "h4 join")
}

// A namespace whose recovery has not settled can be recovered once more.
func TestRecoverNamespaceAgain(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "h1", "h2", "h3")
	w.ok(newReplicated(3), place("x", "h1", "h2", "h3"), found("x"), settle("x", 9), recovery("x", 1, "h2"))
	again := recovery("x", 2, "h2")
	again.Incarnations[0][0]++
	w.ok(again)
	if n := w.namespace("ns_x"); n.Generation != 3 || n.Incarnations[0] != entry.Incarnation(again.Incarnations[0]) {
		t.Errorf("%+v", n)
	}
}
