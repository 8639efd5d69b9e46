package reconcile

import (
	"maps"
	"slices"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/engine/entry"
)

// simHost is a registered host and the stores that it has joined with.
type simHost struct {
	id     string
	run    int64
	alive  bool
	send   func(wire.Report) (wire.ReportAnswer, error)
	report *wire.Reporter // of its newest process; calls send
	store  *simStore      // of its newest process
	stores []*simStore
}

// simStore is a data directory.
type simStore struct {
	id     string
	docs   map[string]wire.Doc
	copies map[string][]entry.Incarnation // by namespace: the groups of which the store has a copy
	aside  map[string]bool                // by namespace: the store has set a copy of earlier groups aside
	opened map[string]bool                // by namespace: the process has opened the copy
}

func (w *simWorld) newStore(h *simHost) *simStore {
	at := &simStore{id: w.id(wire.StorePrefix), docs: map[string]wire.Doc{}, copies: map[string][]entry.Incarnation{}, aside: map[string]bool{}}
	h.stores = append(h.stores, at)
	return at
}

// start starts a new process of a host on a store.
func (w *simWorld) start(h *simHost, at *simStore) {
	joined, err := store.Propose[*store.JoinHostResult](w.t.Context(), w.s, &store.JoinHost{
		Meta: &store.Meta{Principal: h.id}, Id: h.id, Address: "http://" + h.id, Version: "v1", Store: at.id, Raft: h.id + ":1",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	h.run, h.store, h.alive, at.opened = joined.Run, at, true, map[string]bool{}
	h.report = wire.NewReporter(func() time.Time { return w.now }, func(r wire.Report) (wire.ReportAnswer, error) { return h.send(r) })
	h.report.PartBytes = simPartBytes
	w.hearRecoveries(h)
}

// hostOf returns the host whose newest process has a store; nil = the store is lost.
func (w *simWorld) hostOf(store string) *simHost {
	for _, h := range w.hosts {
		if h.store.id == store {
			return h
		}
	}
	return nil
}

// deliver sends a host the newest documents as the control plane shares them, but for the last few.
func (w *simWorld) deliver(h *simHost, missing int) {
	if !h.alive {
		return
	}
	docs := w.state().docs
	for _, d := range docs[:max(0, len(docs)-missing)] {
		if shared, ok := h.share(d); ok {
			h.hear(shared)
			if w.chance(5) {
				w.late = append(w.late, func() { h.hear(shared) })
			}
		}
	}
}

// share returns a document as the host may see it. A host without a member hears that it shall leave, once it has heard
// of the namespace, but not while the groups may still be founded.
func (h *simHost) share(d wire.Doc) (wire.Doc, bool) {
	_, heard := h.store.docs[d.Namespace]
	switch {
	case slices.ContainsFunc(d.Members, func(m wire.GroupMember) bool { return m.Host == h.id }):
		return d, true
	case slices.ContainsFunc(d.Members, func(m wire.GroupMember) bool { return m.Role == wire.Found }), len(d.Members) == 0:
		return d, false
	case !heard && (d.Desired != wire.Open || d.Generation == 1):
		return d, false
	}
	if d.Desired == wire.Open {
		d.Desired = wire.Leave
	}
	return d, true
}

// hear stores a document unless the host has a newer one.
func (h *simHost) hear(d wire.Doc) {
	if known := h.store.docs[d.Namespace]; d.Number > known.Number && d.Generation >= known.Generation {
		h.store.docs[d.Namespace] = d
	}
}

// act makes one effect of one document on a host, which may crash before the next.
func (w *simWorld) act(h *simHost) {
	if !h.alive || len(h.store.docs) == 0 {
		return
	}
	var ids []string
	for id := range h.store.docs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	id := ids[w.rng.IntN(len(ids))]
	d := h.store.docs[id]
	groups, has := h.store.copies[id]
	switch own, role := h.store.member(d); {
	case w.keepEarlier(h.store, groups, d):
	case d.Desired == wire.Absent, d.Desired == wire.Leave && has && w.mayLeave(h.store, groups, d):
		w.drop(h.store, d)
	case d.Desired != wire.Open || !own:
	case !has && role == wire.Found:
		w.found(h.store, id, d)
	case !has && role == wire.Join && len(d.Members) > 1:
		h.store.copies[id] = d.Incarnations
		for _, i := range d.Incarnations {
			if g := w.groups[i]; g != nil {
				g.has[h.store.id] = 0
			}
		}
	case slices.Equal(groups, d.Incarnations):
		h.store.opened[id] = true
	case (role == wire.Found || role == wire.Join && len(d.Members) > 1) && w.waits(h.store, groups):
		w.drop(h.store, d)
		w.count["discarded"]++
	}
}

// waits reports whether a store has a copy of groups of which it never had an entry.
func (w *simWorld) waits(at *simStore, groups []entry.Incarnation) bool {
	return !slices.ContainsFunc(groups, func(i entry.Incarnation) bool {
		g := w.groups[i]
		return g != nil && g.has[at.id] > 0
	})
}

// member reports whether a document names a store, and the role.
func (s *simStore) member(d wire.Doc) (is bool, role string) {
	for _, m := range d.Members {
		if m.Store == s.id {
			return true, m.Role
		}
	}
	return false, ""
}

// found founds the groups of a namespace in a store.
func (w *simWorld) found(at *simStore, id string, d wire.Doc) {
	for _, i := range d.Incarnations {
		w.begin(at, i, &simGroup{w: w, namespace: id}, 0)
	}
	at.copies[id] = d.Incarnations
	w.count["founded"]++
}

// begin founds a group with some entries in a store. Stores that were told to join it wait for it. A founder may lose its
// place and its copy before the founding is recorded, and found the same group again later.
func (w *simWorld) begin(at *simStore, i entry.Incarnation, g *simGroup, entries int) {
	if by, ok := w.founders[i]; ok && (by != at.id || entries > 0) {
		w.t.Fatalf("%s and %s have founded %v of %s", by, at.id, i, g.namespace)
	}
	g.found(at.id, entries)
	for _, h := range w.hosts {
		for _, other := range h.stores {
			if other != at && slices.Contains(other.copies[g.namespace], i) {
				g.has[other.id] = 0
			}
		}
	}
	w.founders[i], w.groups[i] = at.id, g
}

// mayLeave reports whether a store that shall leave deletes its copy: the copy is of other groups, or the leaders have
// reported later configurations than its own log knows with itself.
func (w *simWorld) mayLeave(at *simStore, groups []entry.Incarnation, d wire.Doc) bool {
	if !slices.Equal(groups, d.Incarnations) {
		return true
	}
	if own, _ := at.member(d); own || len(d.Configurations) != len(groups) {
		return false
	}
	for shard, i := range groups {
		if g := w.groups[i]; g == nil || g.configuredAfter(at.id, d.Configurations[shard]) {
			return false
		}
	}
	return true
}

// drop deletes a store's copy of a namespace as its document says.
func (w *simWorld) drop(at *simStore, d wire.Doc) {
	id := d.Namespace
	for _, i := range at.copies[id] {
		switch g := w.groups[i]; {
		case g == nil:
		case d.Desired == wire.Leave && slices.Contains(d.Incarnations, i):
			g.deleted(w.t, at.id)
			w.count["left"]++
		default:
			delete(g.has, at.id)
		}
	}
	delete(at.copies, id)
	delete(at.opened, id)
	delete(at.aside, id)
}

// propose lets the leader's host propose the list of its document.
func (g *simGroup) propose() {
	for _, h := range g.w.hosts {
		d := h.store.docs[g.namespace]
		if h.store.id != g.leader || !g.up(g.leader) || d.Desired != wire.Open || len(d.Members) == 0 {
			continue
		}
		if now := g.list(); now != nil && d.Generation <= now.generation {
			continue
		}
		list := &simList{generation: d.Generation}
		for _, m := range d.Members {
			if m.Role != wire.Leaving {
				list.members = append(list.members, m.Store)
			}
		}
		g.commit(simEntry{list: list})
	}
}

func (w *simWorld) reportOf(h *simHost) (r wire.Report) {
	for _, id := range slices.Sorted(maps.Keys(h.store.docs)) {
		d := h.store.docs[id]
		groups, has := h.store.copies[id]
		c := wire.CellReport{Namespace: id, Generation: d.Generation, State: wire.Opening}
		switch own, role := h.store.member(d); {
		case d.Desired != wire.Open && !has:
			c.State = wire.Gone
		case d.Desired != wire.Open:
			c.State = wire.Closing
		case !own, !has && (role == wire.Leaving || len(d.Members) == 1 && role != wire.Found):
			c.State, c.Error = wire.Waiting, "elsewhere"
		case has && slices.Equal(groups, d.Earlier): // until the host has refounded it or set it aside
		case has && !slices.Equal(groups, d.Incarnations):
			c.State, c.Error = wire.Failed, "another history"
		case h.store.opened[id]:
			c.State, c.Incarnations = wire.Opened, groups
			for _, i := range groups {
				of := wire.GroupReport{Role: wire.Joining}
				if g := w.groups[i]; g != nil {
					of = g.report(h.store.id)
				}
				c.Groups = append(c.Groups, of)
			}
		}
		r.Cells = append(r.Cells, c)
	}
	return r
}
