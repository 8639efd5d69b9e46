package store

import (
	"bytes"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// FoundNamespace records that the founder has founded the groups of all shards, with their incarnations. From
// then on no document lets a store found them, so that an empty disk never founds an empty namespace. A
// namespace of an earlier version gets the incarnations that its host reports first.

// Validate refuses an op that no state could accept.
func (o *FoundNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("generation", checkPositive(o.Generation))
	checkIncarnations(&p, o.Incarnations, min(max(len(o.Incarnations), 1), MaxShards))
	return p.err()
}

// Apply records the founding. It refuses with NOT_FOUND an unknown namespace. It refuses with STATE_CONFLICT
// another generation, a namespace that is not placed, is paused, is being deleted or is deleted, and
// incarnations other than the namespace's. A repeat changes nothing.
func (o *FoundNamespace) Apply(tx *Tx) (*FoundNamespaceResult, error) {
	n, err := tx.namespace(o.Id)
	if err != nil {
		return nil, err
	}
	if err := checkStep(n, o.Generation); err != nil {
		return nil, err
	}
	open := n.Phase == fleet.Provisioning || n.Phase == fleet.Active
	reported := joined(o.Incarnations)
	var known []byte
	for _, i := range n.Incarnations {
		known = append(known, i[:]...)
	}
	switch {
	case !open || len(n.Members) == 0:
		return nil, misplaced(n, "founded")
	case len(o.Incarnations) != n.Spec.Shards:
		return nil, api.Errorf(api.StateConflict, "namespace %s has %d shards, and the founding of %d is reported", n.ID, n.Spec.Shards, len(o.Incarnations))
	case known != nil && !bytes.Equal(reported, known):
		return nil, api.Errorf(api.StateConflict, "namespace %s has the incarnations %x, and %x are reported as founded", n.ID, known, reported)
	case n.Founded:
		return &FoundNamespaceResult{}, nil
	}
	if err := tx.putFounding(o.Id, o.Incarnations, tx.clockNs()); err != nil {
		return nil, err
	}
	// The namespace keeps its version, because nothing changes that a client can read.
	if err := tx.touchAll("SELECT id FROM namespaces WHERE id = ?", o.Id); err != nil {
		return nil, err
	}
	return &FoundNamespaceResult{}, tx.audit(o.Meta, n.Org, o.Id)
}
