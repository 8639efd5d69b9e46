package store

import (
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// PutRole creates a custom role of a namespace, or replaces its permissions for all keys with the role.

// Validate refuses an op that no state could accept.
func (o *PutRole) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("namespace", checkID(o.Namespace))
	p.add("name", tenancy.CheckRoleName(o.Name))
	checkPermissions(&p, o.Permissions)
	p.add("if_version", checkNotNegative(o.IfVersion))
	p.add("caller_version", checkNotNegative(o.CallerVersion))
	return p.err()
}

// Apply writes the role and renews the namespace's document. It refuses with NOT_FOUND a namespace that is
// unknown or deleted, with STATE_CONFLICT one that is being deleted, and with CONFLICT a caller whose
// credential has changed since the caller's rights were checked. It refuses with CONFLICT to create a role
// whose name exists or that is above the limit. It refuses to replace a role that does not exist with
// NOT_FOUND, and one that has another version than the client read with PRECONDITION_FAILED.
func (o *PutRole) Apply(tx *Tx) (*PutRoleResult, error) {
	ns, err := tx.living(o.Namespace)
	if err != nil {
		return nil, err
	}
	if ns.Phase == fleet.Deleting {
		return nil, api.Errorf(api.StateConflict, "namespace %q is being deleted: it gets no roles any more", ns.Name)
	}
	if err := tx.callerUnchanged(o.Meta, o.CallerVersion); err != nil {
		return nil, err
	}
	result, err := o.write(tx)
	if err != nil {
		return nil, err
	}
	if err := tx.touchOwner(keyring.Namespace, o.Namespace); err != nil {
		return nil, err
	}
	return result, tx.audit(o.Meta, ns.Org, o.Namespace+"/"+o.Name)
}

// write adds or replaces the row of the role.
func (o *PutRole) write(tx *Tx) (*PutRoleResult, error) {
	permissions := strings.Join(o.Permissions, " ")
	if !o.Create {
		was, err := tx.roleAt(o.Namespace, o.Name, o.IfVersion)
		if err != nil {
			return nil, err
		}
		err = tx.put("UPDATE roles SET permissions = ?, version = ? WHERE namespace = ? AND name = ?", permissions, was.Version+1, o.Namespace, o.Name)
		return &PutRoleResult{Version: was.Version + 1, CreatedNs: was.CreatedNs}, err
	}
	all, err := roles(tx, o.Namespace)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Name == o.Name {
			return nil, api.Errorf(api.Conflict, "there is a role %q already: replace it, or choose another name", o.Name)
		}
	}
	if int64(len(all)) >= tx.limits.roles {
		return nil, api.Errorf(api.Conflict, "the namespace has %d roles, the maximum: delete one first", tx.limits.roles)
	}
	err = tx.put("INSERT INTO roles (namespace, "+roleColumns+") VALUES (?, ?, ?, ?, 1)", o.Namespace, o.Name, permissions, tx.clockNs())
	return &PutRoleResult{Version: 1, CreatedNs: tx.clockNs(), Created: true}, err
}
