package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// DeleteNamespace begins to delete a namespace. The namespace's keys stop at once; its hosts delete the data
// later. If the namespace is being deleted already, the result names the running operation. A create
// operation that has not ended fails.

// Validate refuses an op that no state could accept.
func (o *DeleteNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("expect_version", checkNotNegative(o.ExpectVersion))
	p.add("operation_id", checkID(o.OperationId))
	return p.err()
}

// Apply begins the deletion. It refuses a namespace that is unknown or deleted with NOT_FOUND, a version
// other than the expected one with PRECONDITION_FAILED, a protected namespace with STATE_CONFLICT, and an
// operation id that is taken with CONFLICT.
func (o *DeleteNamespace) Apply(tx *Tx) (*DeleteNamespaceResult, error) {
	n, err := tx.living(o.Id)
	if err != nil {
		return nil, err
	}
	// This comes before the version check, because the first delete changed the version and this op may be
	// its repeat.
	if n.Phase == fleet.Deleting {
		return &DeleteNamespaceResult{OperationId: n.Operation}, nil
	}
	if err := checkVersion(n, o.ExpectVersion); err != nil {
		return nil, err
	}
	if n.Spec.DeletionProtection {
		return nil, api.Errorf(api.StateConflict, "namespace %q has deletion_protection: switch that off first", n.Name)
	}
	if n.Phase == fleet.Provisioning {
		if err := tx.finish(&n, api.Errorf(api.Conflict, "the namespace was deleted before it was ready")); err != nil {
			return nil, err
		}
	}
	if err := tx.begin(&n, o.OperationId, fleet.DeleteNamespace, o.Meta); err != nil {
		return nil, err
	}
	n.Phase = fleet.Deleting
	n.Generation++
	tx.touch(&n)
	if err := tx.dropKeys(o.Id); err != nil {
		return nil, err
	}
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	return &DeleteNamespaceResult{OperationId: o.OperationId}, tx.audit(o.Meta, n.Org, o.Id)
}
