package store

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/controlplane/fleet"
)

// before turns a state back into one of a build in which a namespace had one host.
const before = `
ALTER TABLE hosts DROP COLUMN raft;
DROP INDEX namespaces_unsettled;
ALTER TABLE namespaces DROP COLUMN listed;
ALTER TABLE namespaces ADD COLUMN host TEXT NOT NULL DEFAULT '';
UPDATE namespaces SET host = COALESCE((SELECT s.host FROM members m JOIN stores s ON s.id = m.store WHERE m.namespace = namespaces.id), '');
CREATE INDEX namespaces_host ON namespaces (host, id) WHERE phase <> 'deleted';
CREATE INDEX namespaces_operation ON namespaces (id) WHERE operation <> '';
CREATE TABLE placements (namespace TEXT PRIMARY KEY, store TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX placements_store ON placements (store, namespace);
INSERT INTO placements SELECT namespace, store FROM members WHERE deleted = 0;
DROP TABLE members;
DROP TABLE configurations;
`

// turnBack turns the state back by before and another text.
func (w *world) turnBack(text string) {
	w.t.Helper()
	if _, err := w.db.writer.ExecContext(w.t.Context(), before+text); err != nil {
		w.t.Fatal(err)
	}
}

// A state of an earlier build keeps its placements. It is carried over once, however often it is opened.
func TestPlacementsOfAnEarlierBuildAreCarriedOver(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b")
	w.ok(newReplicated(1), place("x", "a"), found("x"), settle("x"), newNamespace("org_acme", "new"))
	w.ok(newNamespace("org_acme", "gone"), place("gone", "a"), deletion("gone"), removal("gone"), start("b", "b2"))
	w.turnBack("")
	for range 2 {
		w.reopen()
		n := w.namespace("ns_x")
		if !listed(n, "a") || n.Members[0].Host != "host_a" || n.Members[0].Lost || n.Phase != fleet.Active {
			t.Errorf("the namespace is %+v", n)
		}
		if n := w.namespace("ns_new"); n.Members != nil {
			t.Errorf("a namespace that was not placed is on %+v", n.Members)
		}
		w.wantCounts("carried over", map[string]int{"a": 1, "b": 0})
	}
	w.ok(start("a", "a"), start("b", "b2"), replicas("x", 3), replicas("x", 1))
	w.ok(atGeneration(3, place("x", "b2")))
	w.wantMembers("moved", "b2 join", "a leaving")
	err := w.machine.read(t.Context(), inspectMembers)
	if err != nil {
		t.Error(err)
	}
}

// A state with a namespace on a host that has named no store is refused, and not changed.
func TestAPlacementWithoutAStoreIsNotCarriedOver(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a")
	w.ok(newReplicated(1), place("x", "a"))
	w.turnBack("DELETE FROM placements")
	path := copyDir(t, w.path, "-shm")
	for range 2 {
		if _, err := openMachine(path); err == nil || !strings.Contains(err.Error(), "host_a has namespaces and has named no store") {
			t.Fatalf("it opens: %v", err)
		}
	}
}
