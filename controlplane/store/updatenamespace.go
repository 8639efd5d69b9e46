package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// UpdateNamespace changes the deletion protection of a namespace, the only part of a spec that can change.
// Hosts need not act on the change, so the generation stays.

// Validate refuses an op that no state could accept.
func (o *UpdateNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("expect_version", checkNotNegative(o.ExpectVersion))
	return p.err()
}

// Apply changes the spec. It refuses with NOT_FOUND a namespace that is unknown or deleted, with
// STATE_CONFLICT one that is being deleted, and with PRECONDITION_FAILED a version other than the expected
// one. If nothing changes, it writes nothing.
func (o *UpdateNamespace) Apply(tx *Tx) (*UpdateNamespaceResult, error) {
	n, err := tx.living(o.Id)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(n, o.ExpectVersion); err != nil {
		return nil, err
	}
	if n.Phase == fleet.Deleting {
		return nil, api.Errorf(api.StateConflict, "namespace %q is being deleted: it cannot be changed any more", n.Name)
	}
	if o.DeletionProtection == nil || *o.DeletionProtection == n.Spec.DeletionProtection {
		return &UpdateNamespaceResult{}, nil
	}
	n.Spec.DeletionProtection = *o.DeletionProtection
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	return &UpdateNamespaceResult{}, tx.audit(o.Meta, n.Org, o.Id)
}
