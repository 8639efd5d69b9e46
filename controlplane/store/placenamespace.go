package store

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// PlaceNamespace sets the list of a namespace's members. There are three cases. A namespace without members gets its
// first ones. If the founder's store was lost before the founding was recorded, other stores replace all members, and
// the groups get new incarnations, so that a lost store that comes back does not have the namespace's groups. Once the
// founding is recorded, any list may replace the present one: the stores that it does not name any more are leaving
// until SettleNamespace. The reconciler proposes it, and the server for an operator who moves a member.

// Validate refuses an op that no state could accept.
func (o *PlaceNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("generation", checkPositive(o.Generation))
	checkStores(&p, o.Stores)
	if len(o.Incarnations) > 0 {
		checkIncarnations(&p, o.Incarnations, min(len(o.Incarnations), MaxShards))
	}
	return p.err()
}

// checkStores adds the faults of a list of members.
func checkStores(p *problems, stores []string) {
	if n := len(stores); checkReplicas(uint32(n)) != nil {
		p.add("stores", fmt.Errorf("has %d entries: use 1, 3 or 5", n))
	}
	for i, store := range stores {
		field := fmt.Sprintf("stores[%d]", i)
		p.add(field, checkID(store))
		if slices.Contains(stores[:i], store) {
			p.add(field, fmt.Errorf("is %s again", store))
		}
	}
}

// Apply sets the list. It refuses with NOT_FOUND an unknown namespace or store. It refuses with STATE_CONFLICT another
// generation, a namespace that is paused, is being deleted or is deleted, and a list that members refuses. Without
// incarnations it also refuses another list for a namespace whose founding is not recorded, and a repeat changes
// nothing. With incarnations it also refuses a namespace whose founder is not lost or whose founding is recorded. A list
// that replaces another one raises the generation.
func (o *PlaceNamespace) Apply(tx *Tx) (*PlaceNamespaceResult, error) {
	n, err := tx.namespace(o.Id)
	if err != nil {
		return nil, err
	}
	if err := checkStep(n, o.Generation); err != nil {
		return nil, err
	}
	stores, err := o.list(tx)
	if err != nil {
		return nil, err
	}
	replaces := len(o.Incarnations) > 0
	switch {
	case n.Phase != fleet.Provisioning && n.Phase != fleet.Active:
		return nil, misplaced(n, "placed")
	case replaces && !(lostFounder(n) && len(o.Incarnations) == n.Spec.Shards):
		return nil, misplaced(n, "placed again")
	case replaces:
	case slices.Equal(storesOf(n.Listed()), stores):
		return &PlaceNamespaceResult{}, nil
	case len(n.Members) > 0 && !n.Founded:
		return nil, misplaced(n, "placed")
	}
	members, err := o.members(tx, n, stores)
	if err != nil {
		return nil, err
	}
	if len(n.Members) > 0 {
		n.Generation++
	}
	if replaces {
		if err := tx.putFounding(o.Id, o.Incarnations, 0); err != nil {
			return nil, err
		}
	}
	if err := tx.setMembers(&n, members); err != nil {
		return nil, err
	}
	tx.touch(&n)
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	return &PlaceNamespaceResult{}, tx.audit(o.Meta, n.Org, o.Id)
}

// lostFounder reports whether the founder's store was lost before the founding was recorded.
func lostFounder(n fleet.Namespace) bool {
	return n.Phase == fleet.Provisioning && !n.Founded && len(n.Members) > 0 && n.Members[0].Lost
}

// list returns the stores of the list. For an op of an earlier version, which Validate lets nobody propose any more, it is
// the store of the host.
func (o *PlaceNamespace) list(tx *Tx) ([]string, error) {
	if o.HostId == "" {
		return o.Stores, nil
	}
	h, err := tx.host(o.HostId)
	switch {
	case err != nil:
		return nil, err
	case h.Kind != keyring.Host:
		return nil, api.Errorf(api.StateConflict, "%s is a gateway: it holds no namespaces", h.ID)
	case h.Store == "":
		return nil, api.Errorf(api.StateConflict, "%s has named no store: start it", h.ID)
	}
	return []string{h.Store}, nil
}

// members returns the members of a namespace with a new list: those of the list, and then those that are leaving. A
// founder that is replaced does not leave, because it has no data that anybody needs. members refuses a list that the
// state does not allow.
func (o *PlaceNamespace) members(tx *Tx, n fleet.Namespace, stores []string) ([]fleet.GroupMember, error) {
	if !n.Founded && o.HostId == "" && len(stores) != n.Spec.Replicas {
		return nil, api.Errorf(api.StateConflict, "namespace %s has %d replicas, and the list has %d stores", n.ID, n.Spec.Replicas, len(stores))
	}
	var all []fleet.GroupMember
	for _, store := range stores {
		m, err := tx.newMember(store)
		if err != nil {
			return nil, err
		}
		if _, is := n.Member(store); m.Lost && !(is && n.Founded) {
			return nil, api.Errorf(api.StateConflict, "%s is lost: its host %s has joined with another store", store, m.Host)
		}
		if i := slices.IndexFunc(all, func(other fleet.GroupMember) bool { return other.Host == m.Host }); i >= 0 {
			return nil, api.Errorf(api.StateConflict, "%s and %s are both of host %s, which would be lost with both", all[i].Store, store, m.Host)
		}
		all = append(all, m)
	}
	if n.Founded {
		for _, m := range n.Members {
			if !slices.Contains(stores, m.Store) {
				m.Leaving = true
				all = append(all, m)
			}
		}
	}
	return all, reachable(n, all)
}

// reachable refuses new members of a namespace that could not speak to each other. Nobody needs to speak to a lost member,
// or to one that leaves a group with others.
func reachable(n fleet.Namespace, members []fleet.GroupMember) error {
	if len(members) == 1 {
		return nil
	}
	for _, m := range members {
		if m.Raft == "" && !m.Lost && !(m.Leaving && len(n.Listed()) > 1) {
			return api.Errorf(api.StateConflict, "host %s of %s has no address for Raft: give it a certificate", m.Host, m.Store)
		}
	}
	return nil
}
