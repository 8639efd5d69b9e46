package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// names reports whether a document names this store, or another store of the host with the id.
func (a *Agent) names(d fleet.Doc, id string) bool {
	return slices.ContainsFunc(d.Members, func(m fleet.GroupMember) bool { return a.isHere(m) || m.Host == id })
}

// isHere reports whether a member is this store. A member without a store, which only documents of earlier versions
// have, is the host's, whatever its store.
func (a *Agent) isHere(m fleet.GroupMember) bool {
	id := a.member.ID()
	return m.Store == a.cfg.Store || m.Store == "" && (m.Host == id || id == "")
}

// memberHere returns this store's entry of a document. The error is errWaiting if this store is no member, or if it
// leaves the namespace and has no copy, so that there is nothing to serve.
func (a *Agent) memberHere(d fleet.Doc) (fleet.GroupMember, error) {
	all := d.Members
	at := slices.IndexFunc(all, a.isHere)
	if at < 0 {
		var stores []string
		for _, m := range all {
			stores = append(stores, m.Store)
		}
		return fleet.GroupMember{}, errWaiting(fmt.Sprintf("the data of the namespace is on %s and this directory is %s, where an empty namespace is not founded in its place: start the host with the directory of that store",
			strings.Join(stores, ", "), a.cfg.Store))
	}
	if _, err := a.host.Cells(tenancy.NamespaceID(d.Namespace)); all[at].Role != fleet.Leaving || err == nil {
		return all[at], nil
	}
	disk, err := a.host.OnDisk()
	if err == nil && !slices.Contains(disk, tenancy.NamespaceID(d.Namespace)) {
		err = errWaiting("this store leaves the namespace and has no copy of it")
	}
	return all[at], err
}

// specOf returns how a document wants its namespace opened by one of its members. Only the role found founds groups.
// Without other members an empty directory has lost the namespace's data, because no leader could add the store.
func specOf(d fleet.Doc, own fleet.GroupMember) host.Spec {
	switch {
	case own.Role == fleet.Found:
		return host.Spec{Incarnations: d.Incarnations}
	case own.Role == fleet.Recover:
		return host.Spec{Opened: true, Incarnations: d.Incarnations, Refound: d.Earlier}
	case own.Role == fleet.Join && len(d.Members) > 1 && len(d.Incarnations) > 0:
		return host.Spec{Shards: len(d.Incarnations), Join: d.Incarnations, Incarnations: d.Incarnations}
	}
	return host.Spec{Opened: true, Incarnations: d.Incarnations}
}

// elsewhere returns the groups of a document that wants this host to leave the namespace. The configurations count only
// if the document names other members and not this store.
func (a *Agent) elsewhere(d fleet.Doc) host.Elsewhere {
	by := host.Elsewhere{Incarnations: d.Incarnations}
	if len(d.Members) > 0 && !slices.ContainsFunc(d.Members, a.isHere) {
		by.Configurations = d.Configurations
	}
	return by
}

// Members returns the list of members in a namespace's newest document, or nil if the document has none, and
// a channel that is closed when there is a newer document: see host.Config.
func (a *Agent) Members(ns tenancy.NamespaceID) (list *state.Members, newer <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.placements[string(ns)]
	if p == nil {
		return nil, nil
	}
	return listOf(p.doc), p.newer
}

// Peers reports whether a namespace's newest document names a store as a member, also as one that leaves, because that
// one may still lead: see host.Config. A store that the document does not name is asked for its own document.
func (a *Agent) Peers(ns tenancy.NamespaceID, store string) bool {
	a.mu.Lock()
	p := a.placements[string(ns)]
	named := p != nil && p.doc.Desired == fleet.Open && namesStore(p.doc, store)
	a.mu.Unlock()
	if !named {
		a.ask(ns, store)
	}
	return named
}

// namesStore reports whether a document names a store as a member, also as one that leaves.
func namesStore(d fleet.Doc, store string) bool {
	return slices.ContainsFunc(d.Members, func(m fleet.GroupMember) bool { return m.Store == store })
}

// listOf returns the list of members that a document wants its groups to have, or nil if it has none.
func listOf(d fleet.Doc) *state.Members {
	if d.Desired != fleet.Open || d.Epoch < 1 || d.Generation < 1 || len(d.Members) == 0 {
		return nil
	}
	list := &state.Members{Epoch: uint64(d.Epoch), Generation: uint64(d.Generation)}
	for _, m := range d.Members {
		if m.Role == fleet.Leaving {
			continue
		}
		// A host without a Raft address is the only member, and the engine gives it its name as the address.
		list.Members = append(list.Members, &state.Member{Id: m.Store, Address: cmp.Or(m.Raft, m.Store)})
	}
	return list
}
