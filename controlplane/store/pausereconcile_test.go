package store

import (
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

func pause(name string) *PauseReconcile   { return &PauseReconcile{Meta: by("op"), Id: "ns_" + name} }
func resume(name string) *ResumeReconcile { return &ResumeReconcile{Meta: by("op"), Id: "ns_" + name} }

// The steps of the reconciler are refused while a namespace is paused, those too that were planned before. The
// requests of its tenant are not.
func TestAPausedNamespaceTakesNoStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newHost("h1"), start("h1", "h1"), newNamespace("org_acme", "x"))
	w.refused(api.NotFound, pause("nobody"))
	w.refused(api.NotFound, resume("nobody"))
	w.ok(pause("x"))
	since := w.clockNs
	w.refused(api.StateConflict, place("x", "h1"))
	w.ok(resume("x"), place("x", "h1"), pause("x"))
	w.refused(api.StateConflict, settle("x"))
	w.pass(time.Minute)
	again := pause("x")
	again.Meta.Principal = "another"
	w.ok(again) // the first pause stays
	w.reopen()
	if n := w.namespace("ns_x"); n.PausedBy != "op" || n.PausedNs != since {
		t.Errorf("paused by %q at %d, want op at %d", n.PausedBy, n.PausedNs, since)
	}
	w.ok(deletion("x"))
	w.refused(api.StateConflict, removal("x"))
	w.ok(resume("x"), removal("x"))
	w.refused(api.NotFound, pause("x"))
	if n := w.namespace("ns_x"); n.PausedBy != "" || n.PausedNs != 0 {
		t.Errorf("a deleted namespace is paused by %q at %d", n.PausedBy, n.PausedNs)
	}
}

func (s *simulation) drawPause(n fleet.Namespace) op {
	if s.rng.IntN(2) == 0 {
		return &PauseReconcile{Id: string(n.ID)}
	}
	return &ResumeReconcile{Id: string(n.ID)}
}
