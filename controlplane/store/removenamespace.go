package store

import (
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// RemoveNamespace records that the hosts have deleted the namespace's data, or that the namespace was never
// placed. It deletes the namespace's credentials and custom roles and ends its delete operation. The row
// stays, for the document that tells gateways of the deletion and for the usage. The rows of its members stay too, for
// a host that was away: the document tells it to delete its copy.

// Validate refuses an op that no state could accept.
func (o *RemoveNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("generation", checkPositive(o.Generation))
	return p.err()
}

// Apply marks the namespace deleted. It refuses with NOT_FOUND an unknown namespace. It refuses with
// STATE_CONFLICT another generation, and a namespace that is paused or is not being deleted. A repeat changes
// nothing.
func (o *RemoveNamespace) Apply(tx *Tx) (*RemoveNamespaceResult, error) {
	n, err := tx.namespace(o.Id)
	if err != nil {
		return nil, err
	}
	if err := checkStep(n, o.Generation); err != nil {
		return nil, err
	}
	switch n.Phase {
	case fleet.Deleted:
		return &RemoveNamespaceResult{}, nil
	case fleet.Deleting:
	default:
		return nil, misplaced(n, "removed")
	}
	ids, err := list(tx, scalar[string], "SELECT id FROM credentials WHERE owner = ? AND kind = ? ORDER BY id", o.Id, string(keyring.Namespace))
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := tx.dropCredential(id); err != nil {
			return nil, err
		}
	}
	for _, table := range []string{"roles", "foundings", "configurations", "recoveries"} {
		if _, err := tx.exec("DELETE FROM "+table+" WHERE namespace = ?", o.Id); err != nil {
			return nil, err
		}
	}
	if err := tx.finish(&n, nil); err != nil {
		return nil, err
	}
	n.Phase, n.Observed = fleet.Deleted, n.Generation
	tx.touch(&n)
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	if err := tx.touchOrg(n.Org); err != nil {
		return nil, err
	}
	if _, err := tx.exec("UPDATE members SET deleted = 1 WHERE namespace = ?", o.Id); err != nil {
		return nil, err
	}
	if err := tx.touchHosts(n.Members, nil); err != nil {
		return nil, err
	}
	return &RemoveNamespaceResult{}, tx.audit(o.Meta, n.Org, o.Id)
}
