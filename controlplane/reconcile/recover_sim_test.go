package reconcile

import (
	"errors"
	"slices"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/engine/entry"
)

// simKept is the copy from which an operator recovers a group, and the number of its entries then.
type simKept struct {
	of      *simGroup
	store   string
	entries int
}

// simEnded is a group that was recovered when most of its voters were away, and the number of its acknowledged entries.
type simEnded struct {
	*simGroup
	committed int
}

// fail ends the changes of all namespaces and then stops three hosts at once, so that namespaces lose their quorum. The
// control plane hears nothing of the hosts for a while, and an operator begins to recover the namespaces.
func (w *simWorld) fail() {
	w.settle()
	for _, at := range w.rng.Perm(len(w.hosts))[:3] {
		w.hosts[at].alive = false
	}
	for range 6 {
		w.tick()
		w.operate()
	}
}

// operate lets an operator try to recover a namespace of which a group has no majority on hosts that run.
func (w *simWorld) operate() {
	var all []fleet.Namespace
	for _, ns := range w.namespaces() {
		if w.stuck(ns) {
			all = append(all, ns)
		}
	}
	if len(all) == 0 {
		return
	}
	ns := all[w.rng.IntN(len(all))]
	for _, at := range w.rng.Perm(len(ns.Members)) {
		if w.recover(ns, ns.Members[at].Host, w.chance(50), w.chance(20)) {
			return
		}
	}
}

// stuck reports whether a group of an active namespace has no majority of its voters on hosts that run.
func (w *simWorld) stuck(ns fleet.Namespace) bool {
	return ns.Phase == fleet.Active && ns.Founded && slices.ContainsFunc(ns.Incarnations, func(i entry.Incarnation) bool {
		g := w.groups[i]
		return g != nil && !g.quorum(g.peers, w.runs)
	})
}

// runs reports whether the host of a store runs.
func (w *simWorld) runs(store string) bool {
	h := w.hostOf(store)
	return h != nil && h.alive
}

// recover lets an operator recover a namespace from the copy on a host, through the planner. It returns false if the
// planner refuses. The op may come late.
func (w *simWorld) recover(ns fleet.Namespace, host string, older, late bool) bool {
	step, _, err := w.r[0].Recover(w.t.Context(), ns, host, older)
	if err != nil {
		w.t.Fatal(err)
	}
	if step.Kind != plan.Refound {
		w.count["recovery refused"]++
		return false
	}
	propose := func() { w.proposeRecovery(ns, step.Stores[0]) }
	if late {
		w.late = append(w.late, propose)
	} else {
		propose()
	}
	return true
}

// proposeRecovery records that a namespace is recovered from a store, unless another change came first.
func (w *simWorld) proposeRecovery(ns fleet.Namespace, kept string) {
	incarnations, err := store.NewIncarnations(w, ns.Spec.Shards)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = store.Propose[any](w.t.Context(), w.s, &store.RecoverNamespace{
		Meta: &store.Meta{Principal: "test"}, Id: string(ns.ID), Generation: ns.Generation, Store: kept, Incarnations: incarnations,
	})
	if errors.Is(err, &api.Error{Code: api.StateConflict}) {
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for shard, i := range ns.Incarnations {
		g := w.groups[i]
		w.kept[entry.Incarnation(incarnations[shard])] = simKept{g, kept, g.has[kept]}
		if !g.quorum(g.peers, w.runs) {
			w.ended[string(ns.ID)] = append(w.ended[string(ns.ID)], simEnded{g, g.committed})
		}
	}
	delete(w.lost, string(ns.ID))
	w.count["recovered"]++
}

// hearRecoveries lets a started host hear of the namespaces that were recovered meanwhile. A real host hears of them from
// the control plane sooner than its groups can elect a leader; an operator starts it while there is a control plane.
func (w *simWorld) hearRecoveries(h *simHost) {
	if len(w.ended) == 0 {
		return
	}
	for _, d := range w.state().docs {
		if shared, ok := h.share(d); ok && len(w.ended[d.Namespace]) > 0 {
			h.hear(shared)
		}
	}
}

// keepEarlier makes one effect of a document on a copy of other groups than the document's: the host closes the copy,
// refounds the groups from it, or sets it aside. It also deletes a copy that was set aside and is needed no more.
func (w *simWorld) keepEarlier(at *simStore, groups []entry.Incarnation, d wire.Doc) bool {
	own, role := at.member(d)
	earlier := len(d.Earlier) > 0 && slices.Equal(groups, d.Earlier)
	switch {
	case d.Desired == wire.Absent || d.Desired == wire.Open && !own:
		return false
	case at.opened[d.Namespace] && !slices.Equal(groups, d.Incarnations):
		delete(at.opened, d.Namespace)
	case earlier && d.Desired == wire.Open && role == wire.Recover:
		w.refound(at, d)
	case earlier:
		for _, i := range groups {
			delete(w.groups[i].has, at.id)
		}
		delete(at.copies, d.Namespace)
		at.aside[d.Namespace] = true
		w.count["set aside"]++
	case len(d.Earlier) == 0 && at.aside[d.Namespace]:
		delete(at.aside, d.Namespace)
	default:
		return false
	}
	return true
}

// refound makes a store's copy the beginning of the groups of a document. It has every entry that it had when the operator
// chose it.
func (w *simWorld) refound(at *simStore, d wire.Doc) {
	for shard, i := range d.Incarnations {
		of, kept := w.groups[d.Earlier[shard]], w.kept[i]
		entries := of.has[at.id]
		if kept.of != of || kept.store != at.id || entries < kept.entries {
			w.t.Fatalf("%s refounds shard %d of %+v with %d entries, and the operator kept %+v", at.id, shard, d, entries, kept)
		}
		delete(of.has, at.id)
		w.begin(at, i, &simGroup{w: w, namespace: d.Namespace, term: of.term}, entries)
	}
	at.copies[d.Namespace] = d.Incarnations
	w.count["refounded"]++
}

// recoverable reports whether an operator can recover a namespace without a store: another member has a copy of every
// shard.
func (w *simWorld) recoverable(ns fleet.Namespace, without string) bool {
	return ns.Phase == fleet.Active && slices.ContainsFunc(ns.Members, func(m fleet.GroupMember) bool {
		return m.Store != without && w.hostOf(m.Store) != nil && !slices.ContainsFunc(ns.Incarnations, func(i entry.Incarnation) bool {
			return w.groups[i] == nil || w.groups[i].has[m.Store] == 0
		})
	})
}

// waitsForHost reports whether the host of the copy from which a group is recovered has not refounded it yet, and still has
// the copy.
func (w *simWorld) waitsForHost(i entry.Incarnation) bool {
	kept, is := w.kept[i]
	return is && w.hostOf(kept.store) != nil && kept.of.has[kept.store] >= kept.entries
}

// checkEnded checks that the recovered groups of a namespace have acknowledged nothing since.
func (w *simWorld) checkEnded(ns fleet.Namespace) {
	for _, g := range w.ended[string(ns.ID)] {
		if g.simGroup.committed > g.committed {
			w.t.Fatalf("a group of %+v has acknowledged %d entries after it was recovered", ns, g.simGroup.committed-g.committed)
		}
	}
}

// recoverAll lets an operator recover the namespaces that have lost the majority of their copies.
func (w *simWorld) recoverAll() {
	for _, ns := range w.namespaces() {
		if !w.stuck(ns) {
			continue
		}
		for _, m := range ns.Members {
			if w.recover(ns, m.Host, true, false) {
				break
			}
		}
	}
}
