package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/optable"
)

// withLaterOp returns the table of a later binary, in which an op needs feature level 2.
func withLaterOp(o op) *optable.Table[*kind] {
	rows := make([]*kind, 1+slices.MaxFunc(table.Rows(), func(a, b *kind) int { return int(a.Number) - int(b.Number) }).Number)
	for _, k := range table.Rows() {
		later := *k
		if k == table.Of(o) {
			later.Since = 2
		}
		rows[k.Number] = &later
	}
	return optable.New(rows)
}

// stops applies an entry at a level, which must stop the machine with an error.
func (w *world) stops(says string, level uint32, o op) {
	w.t.Helper()
	before := w.dump()
	if _, err := w.try(encode(w.t, level, w.clockNs, o)); err == nil || !strings.Contains(err.Error(), says) {
		w.t.Errorf("%T at level %d: %v; it should say %q", o, level, err, says)
	}
	if diff := difference(before, w.dump()); diff != "" {
		w.t.Errorf("%T at level %d has changed the state: %s", o, level, diff)
	}
}

// TestRaiseLevel raises the level of a state to that of a later binary, which allows the op of that level. The state
// and its images are then refused by an earlier binary.
func TestRaiseLevel(t *testing.T) {
	t.Parallel()
	w, earlier := newWorld(t), newWorld(t)
	late := &PauseReconcile{Meta: by("op"), Id: "ns_prod"}
	w.known, w.ops = 2, withLaterOp(late)
	w.reopen()
	w.ok(newHost("h1"), start("h1", "h1"), newOrg("acme"), newNamespace("org_acme", "prod"))
	if err := w.admit(late); w.level() != 1 || api.CodeOf(err) != api.Unsupported || !strings.Contains(err.Error(), "pause-reconcile needs feature level 2") {
		t.Errorf("at level %d: %v", w.level(), err)
	}
	w.stops("pause-reconcile needs feature level 2, the entry was written at 1", 1, late)
	w.stops("the feature level rises to 3, this binary knows 2", 1, &RaiseLevel{Meta: by("leader"), Level: 3})
	earlier.stops("the feature level rises to 2, this binary knows 1", 1, &RaiseLevel{Meta: by("leader"), Level: 2})

	w.ok(&RaiseLevel{Meta: by("leader"), Level: 2}, &RaiseLevel{Meta: by("leader"), Level: 2})
	w.refused(api.StateConflict, &RaiseLevel{Meta: by("leader"), Level: 1})
	w.reopen()
	if err := w.admit(late); w.level() != 2 || err != nil {
		t.Errorf("at level %d: %v", w.level(), err)
	}
	if results, err := w.try(encode(t, 2, w.clockNs, late)); err != nil || results[0] == nil {
		t.Errorf("the op of level 2: %v, %v", results, err)
	}
	rows, err := w.store().Audit(t.Context(), "", 0, MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	raised := slices.DeleteFunc(rows, func(r AuditRow) bool { return r.Action != "raise-level" })
	if len(raised) != 1 || raised[0].Target != "2" || raised[0].Principal != "leader" {
		t.Errorf("the rise is audited as %+v", raised)
	}

	const says = "the store has feature level 2, this binary knows 1: start a newer one"
	if _, err := openMachine(copyDir(t, w.path, "-shm"), 1, table); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("an earlier binary opens the state: %v", err)
	}
	before := earlier.dump()
	if err := earlier.Restore(copyOf(t, w.machine)); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("an earlier binary takes an image of the state: %v", err)
	}
	if diff := difference(before, earlier.dump()); diff != "" {
		t.Errorf("the refused image has changed the state: %s", diff)
	}
}
