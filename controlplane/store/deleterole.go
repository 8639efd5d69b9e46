package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// DeleteRole deletes a custom role that no unexpired key has.

// Validate refuses an op that no state could accept.
func (o *DeleteRole) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("namespace", checkID(o.Namespace))
	p.add("name", tenancy.CheckRoleName(o.Name))
	p.add("if_version", checkNotNegative(o.IfVersion))
	p.add("caller_version", checkNotNegative(o.CallerVersion))
	return p.err()
}

// Apply removes the role and renews the namespace's document. It refuses with NOT_FOUND a namespace that is
// unknown or deleted and an unknown role, and with PRECONDITION_FAILED a version other than the one the
// client read. It refuses with CONFLICT a caller whose credential has changed since the caller's rights were
// checked, and a role that an unexpired key has.
func (o *DeleteRole) Apply(tx *Tx) (*DeleteRoleResult, error) {
	ns, err := tx.living(o.Namespace)
	if err != nil {
		return nil, err
	}
	if err := tx.callerUnchanged(o.Meta, o.CallerVersion); err != nil {
		return nil, err
	}
	if _, err := tx.roleAt(o.Namespace, o.Name, o.IfVersion); err != nil {
		return nil, err
	}
	switch id, err := tx.keyWith(o.Namespace, o.Name); {
	case err != nil:
		return nil, err
	case id != "":
		return nil, api.Errorf(api.Conflict, "API key %s has the role %q: give the key other roles or revoke it first", id, o.Name)
	}
	if err := tx.put("DELETE FROM roles WHERE namespace = ? AND name = ?", o.Namespace, o.Name); err != nil {
		return nil, err
	}
	if err := tx.touchOwner(keyring.Namespace, o.Namespace); err != nil {
		return nil, err
	}
	return &DeleteRoleResult{}, tx.audit(o.Meta, ns.Org, o.Namespace+"/"+o.Name)
}
