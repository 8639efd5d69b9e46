package store

import (
	"github.com/corvo/corvo/controlplane/fleet"
)

// SettleNamespace records that the host has opened the namespace. The namespace becomes active and its create
// operation ends.

// Validate refuses an op that no state could accept.
func (o *SettleNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("generation", checkPositive(o.Generation))
	return p.err()
}

// Apply makes the namespace active. It refuses with NOT_FOUND an unknown namespace. It refuses with
// STATE_CONFLICT another generation, and a namespace that is not placed, is paused, is not founded, is being
// deleted or is deleted. A repeat changes nothing.
//
// A namespace without incarnations is settled, because the logs of earlier versions have such ops.
func (o *SettleNamespace) Apply(tx *Tx) (*SettleNamespaceResult, error) {
	n, err := tx.namespace(o.Id)
	if err != nil {
		return nil, err
	}
	if err := checkStep(n, o.Generation); err != nil {
		return nil, err
	}
	switch {
	case n.Phase == fleet.Active:
		return &SettleNamespaceResult{}, nil
	case n.Phase != fleet.Provisioning || n.HostID == "" || n.Incarnations != nil && !n.Founded:
		return nil, misplaced(n, "settled")
	}
	if err := tx.finish(&n, nil); err != nil {
		return nil, err
	}
	n.Phase, n.Observed = fleet.Active, n.Generation
	tx.touch(&n)
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	return &SettleNamespaceResult{}, tx.audit(o.Meta, n.Org, o.Id)
}
