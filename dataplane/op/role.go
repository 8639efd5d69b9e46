package op

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// A role names permissions. Keys refer to roles by name, and each use of a key looks up the permissions, so that
// a change of a role changes all its keys. Every role of a key exists: a key cannot get an unknown role, and a
// role that a key has cannot be deleted.

const kindRole = state.ResourceKind_RESOURCE_KIND_ROLE

// checkRole checks a declared role.
func checkRole(p *problems, o *PutResource) {
	r := o.GetResource()
	p.only(o, r.GetRole() != nil)
	p.add("name", tenancy.CheckRoleName(r.GetName()))
	given := r.GetRole().GetPermissions()
	p.length("permissions", len(given), len(tenancy.DataPlanePermissions()))
	for i, word := range given {
		if !tenancy.Permission(word).OfDataPlane() {
			p.item("permissions", i, "", fmt.Errorf("%.64q is not a permission of a namespace", word))
		}
	}
}

// releaseRole refuses with CONFLICT to delete a role that a key has.
func releaseRole(tx *state.Tx, was *state.Resource) error {
	for _, k := range tx.Keys() {
		if slices.Contains(k.Roles, was.Name) {
			return api.Errorf(api.Conflict, "API key %s has the role %q: give the key other roles or revoke it first", k.Id, was.Name)
		}
	}
	return nil
}

// keyRoles checks the role names of a key.
func (p *problems) keyRoles(field string, roles []string) {
	p.length(field, len(roles), job.MaxKeyRoles)
	if len(roles) <= job.MaxKeyRoles {
		for i, role := range roles {
			p.item(field, i, "", checkWord(role, job.MaxKeyRole))
		}
	}
}

// keyScope checks the queue globs of a key.
func (p *problems) keyScope(field string, globs []string) {
	if len(globs) > job.MaxKeyScope {
		p.length(field, len(globs), job.MaxKeyScope)
		return
	}
	for i, glob := range globs {
		p.item(field, i, "", checkWord(glob, job.MaxKeyGlob))
	}
}

// rolesAreThere refuses with VALIDATION_ERROR role names that are neither built in nor declared.
func rolesAreThere(tx *state.Tx, roles []string) error {
	for _, name := range roles {
		if !tenancy.Role(name).Valid() && tx.Resource(kindRole, name) == nil {
			return api.Errorf(api.ValidationError, "there is no role %q: create it first, or use one of %v", name, tenancy.Roles())
		}
	}
	return nil
}

// administers reports whether a key is enabled, never expires, covers every queue and has the built-in role
// admin.
func administers(k *state.Key) bool {
	return k.Enabled && k.ExpiresNs == 0 && len(k.QueueScope) == 0 && slices.Contains(k.Roles, string(tenancy.Admin))
}

// othersAdminister refuses with CONFLICT a change to the last key that administers the namespace, because a
// node without a key that can create keys must be set up anew.
func othersAdminister(tx *state.Tx, k *state.Key) error {
	if !administers(k) || slices.ContainsFunc(tx.Keys(), func(other *state.Key) bool { return other.Id != k.Id && administers(other) }) {
		return nil
	}
	return api.Errorf(api.Conflict, "API key %s is the last that administers this namespace: no other is enabled, has the role admin, covers every queue and never expires. Create such a key first, because without one no key could be created any more", k.Id)
}
