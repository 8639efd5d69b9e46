package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// UpdateNamespace changes the deletion protection and the number of replicas of a namespace, the only parts of a spec
// that can change. Another number of replicas raises the generation, and the reconciler then changes the list of
// members. Hosts need not act on the protection, so the generation stays.

// Validate refuses an op that no state could accept.
func (o *UpdateNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("expect_version", checkNotNegative(o.ExpectVersion))
	if o.Replicas != nil {
		p.add("replicas", checkReplicas(*o.Replicas))
	}
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
	before := n.Spec
	if o.DeletionProtection != nil {
		n.Spec.DeletionProtection = *o.DeletionProtection
	}
	if o.Replicas != nil {
		n.Spec.Replicas = int(*o.Replicas)
	}
	if n.Spec == before {
		return &UpdateNamespaceResult{}, nil
	}
	if n.Spec.Replicas != before.Replicas {
		n.Generation++
		tx.touch(&n)
	}
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	return &UpdateNamespaceResult{}, tx.audit(o.Meta, n.Org, o.Id)
}
