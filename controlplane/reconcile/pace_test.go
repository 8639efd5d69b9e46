package reconcile

import (
	"testing"

	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/controlplane/store"
)

// TestADrainMovesFewNamespacesAtATime drains a host with many namespaces. On no host may more than plan.MaxChanges
// namespaces change their members at a time, and the host must get empty.
func TestADrainMovesFewNamespacesAtATime(t *testing.T) {
	t.Parallel()
	w := newSimWorld(t, 1)
	meta := &store.Meta{Principal: "test"}
	full := w.hosts[6]
	for _, h := range w.hosts[:6] {
		propose(t, w.s, &store.DrainHost{Meta: meta, Id: h.id})
	}
	for range 2*plan.MaxChanges + 3 {
		w.create(1, 1)
	}
	w.settle()
	for _, h := range w.hosts[:6] {
		propose(t, w.s, &store.UndrainHost{Meta: meta, Id: h.id})
	}
	propose(t, w.s, &store.DrainHost{Meta: meta, Id: full.id})
	most := 0
	for rounds := 0; ; rounds++ {
		changes, left := map[string]int{}, 0
		for _, ns := range w.namespaces() {
			for _, m := range ns.Members {
				if changing(ns) {
					changes[m.Host]++
					most = max(most, changes[m.Host])
				}
			}
			if ns.On(full.id) {
				left++
			}
		}
		if left == 0 {
			break
		}
		if rounds == 100 {
			t.Fatalf("after %d rounds %d namespaces are left on the host", rounds, left)
		}
		w.round()
	}
	if most != plan.MaxChanges {
		t.Errorf("up to %d namespaces of a host changed at a time, want %d", most, plan.MaxChanges)
	}
}
