package store

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
)

// unsettled lists the names of the unsettled namespaces.
func (w *world) unsettled(hosts ...string) (names []string) {
	w.t.Helper()
	for i, host := range hosts {
		hosts[i] = "host_" + host
	}
	all, err := w.store().Unsettled(w.t.Context(), hosts)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range all {
		names = append(names, n.Name)
	}
	return names
}

// A namespace is unsettled for each of the reasons for which the reconciler must look at it, and for no other.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b", "c", "d")
	want := func(step string, names []string, hosts ...string) {
		t.Helper()
		if got := w.unsettled(hosts...); !slices.Equal(got, names) {
			t.Errorf("%s: %v are unsettled, want %v", step, got, names)
		}
	}
	w.ok(newReplicated(3), place("x", "a", "b", "c"), found("x"))
	want("a create runs", []string{"x"})
	w.ok(settle("x", 1))
	one := newNamespace("org_acme", "one")
	w.ok(one, place("one", "a"), found("one"), settle("one"))
	want("all are settled", nil)
	want("on a host", []string{"one", "x"}, "a")
	want("on two hosts", []string{"x"}, "b", "c")
	want("on other hosts", nil, "d", "none")

	w.ok(replicas("x", 5))
	want("a generation is not in effect", []string{"x"})
	w.ok(atGeneration(2, settle("x", 2)))
	want("members are missing", []string{"x"})
	w.ok(replicas("x", 3), atGeneration(3, settle("x", 2)))
	want("none is missing", nil)
	w.ok(atGeneration(3, place("x", "d", "b", "c")))
	want("a member leaves", []string{"x"})
	want("on the host of a leaving member", []string{"one", "x"}, "a")
	w.ok(atGeneration(4, settle("x", 3)))
	want("it has left", []string{"one"}, "a")

	w.ok(start("d", "d2"), start("a", "a2"))
	want("stores are lost", []string{"x"}) // the only copy of the other may come back
	w.ok(start("d", "d"))
	want("the store is back", nil)
	w.ok(deletion("x"))
	want("a delete runs", []string{"x"})
	w.ok(atGeneration(5, removal("x")), start("d", "d3"))
	want("deleted", nil, "d", "b")
}

// The query for unsettled namespaces reads no table whole.
func TestUnsettledUsesIndexes(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a")
	scan := func(rows *sql.Rows) (text string, err error) {
		var id, parent, unused int
		return text, rows.Scan(&id, &parent, &unused, &text)
	}
	steps := ask(w, func(r reader) ([]string, error) { return list(r, scan, "EXPLAIN QUERY PLAN "+unsettledSQL, "[]") })
	for _, step := range steps {
		whole := strings.HasPrefix(step, "SCAN ") && !strings.Contains(step, " USING ")
		if whole && !strings.HasPrefix(step, "SCAN h VIRTUAL TABLE") {
			t.Errorf("%s reads a whole table", step)
		}
	}
	all := strings.Join(steps, "\n")
	for _, index := range []string{"namespaces_unsettled", "stores_lost", "members_store", "stores_host"} {
		if !strings.Contains(all, index) {
			t.Errorf("the query does not use %s:\n%s", index, all)
		}
	}
}
