package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// PlaceNamespace sets the host of a namespace that has none.

// Validate refuses an op that no state could accept.
func (o *PlaceNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("generation", checkPositive(o.Generation))
	p.add("host_id", checkID(o.HostId))
	return p.err()
}

// Apply places the namespace. It refuses an unknown namespace, another generation, a namespace on another
// host, a namespace that is being deleted or is deleted, an unknown host and a gateway. A repeat changes
// nothing.
func (o *PlaceNamespace) Apply(tx *Tx) (*PlaceNamespaceResult, error) {
	n, err := tx.namespace(o.Id)
	if err != nil {
		return nil, err
	}
	if err := checkGeneration(n, o.Generation); err != nil {
		return nil, err
	}
	open := n.Phase == fleet.Provisioning || n.Phase == fleet.Active
	switch {
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
