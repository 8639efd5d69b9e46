package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// UpdateNamespace changes what may change of a namespace's spec. Hosts need not
// do anything about it, so its generation stays.

// Number is UpdateNamespace's number in the log.
func (*UpdateNamespace) Number() entry.Number { return numUpdateNamespace }

// Class is UpdateNamespace's place among waiting proposals.
func (*UpdateNamespace) Class() pipeline.Class { return table[numUpdateNamespace].class }

// Validate refuses what no state could accept.
func (o *UpdateNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("expect_version", checkNotNegative(o.ExpectVersion))
	return p.err()
}

// Apply changes the spec. It refuses another version than the expected, and a
// namespace that is being deleted. What is so already leaves no trace.
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
