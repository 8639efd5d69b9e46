package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// PlaceNamespace sets the host of a namespace that has none. If the store of a namespace was lost before the
// founding was recorded, PlaceNamespace sets another store, which may be of the same host. It then gives the
// groups new incarnations, so that a lost store that comes back does not have the namespace's groups.

// Validate refuses an op that no state could accept.
func (o *PlaceNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("generation", checkPositive(o.Generation))
	p.add("host_id", checkID(o.HostId))
	if len(o.Incarnations) > 0 {
		checkIncarnations(&p, o.Incarnations, min(len(o.Incarnations), MaxShards))
	}
	return p.err()
}

// Apply places the namespace. It refuses with NOT_FOUND an unknown namespace or host. It refuses with
// STATE_CONFLICT another generation, a gateway, and a namespace that is paused, is being deleted or is
// deleted. Without incarnations it also refuses a namespace on another host, and a repeat changes nothing.
// With incarnations it also refuses a namespace that is active, whose store is not lost or whose founding is
// recorded. The placement then gets a new generation, so that a repeat is refused.
func (o *PlaceNamespace) Apply(tx *Tx) (*PlaceNamespaceResult, error) {
	n, err := tx.namespace(o.Id)
	if err != nil {
		return nil, err
	}
	if err := checkStep(n, o.Generation); err != nil {
		return nil, err
	}
	open := n.Phase == fleet.Provisioning || n.Phase == fleet.Active
	replaces := len(o.Incarnations) > 0
	switch {
	case replaces && (n.Phase != fleet.Provisioning || !n.StoreLost || n.Founded || len(o.Incarnations) != n.Spec.Shards):
		return nil, misplaced(n, "placed again")
	case replaces:
	case open && n.HostID == o.HostId:
		return &PlaceNamespaceResult{}, nil
	case !open || n.HostID != "":
		return nil, misplaced(n, "placed")
	}
	h, err := tx.host(o.HostId)
	if err != nil {
		return nil, err
	}
	if h.Kind != keyring.Host {
		return nil, api.Errorf(api.StateConflict, "%s is a gateway: it holds no namespaces", h.ID)
	}
	if replaces {
		if err := tx.leaveStore(&n, o.Incarnations); err != nil {
			return nil, err
		}
	}
	n.HostID = h.ID
	tx.touch(&n)
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	if err := tx.placeOn(o.Id, h.Store); err != nil {
		return nil, err
	}
	if err := tx.touchHost(h.ID); err != nil {
		return nil, err
	}
	return &PlaceNamespaceResult{}, tx.audit(o.Meta, n.Org, o.Id)
}

// leaveStore ends the placement of a namespace on a lost store. The caller writes the namespace.
func (tx *Tx) leaveStore(n *fleet.Namespace, incarnations [][]byte) error {
	n.Generation++
	if _, err := tx.exec("DELETE FROM placements WHERE namespace = ?", string(n.ID)); err != nil {
		return err
	}
	if err := tx.touchHost(n.HostID); err != nil {
		return err
	}
	return tx.putFounding(string(n.ID), incarnations, 0)
}
