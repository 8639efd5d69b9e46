package op

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// A role names permissions. Keys have roles by name; what a role grants is looked up
// when a key is used, so that a change of a role is one of all its keys. Every key's
// roles are there: a key is refused one that is not, and a role that a key has stays.

const kindRole = state.ResourceKind_RESOURCE_KIND_ROLE

// checkRole looks at what a role says.
func checkRole(p *problems, o *PutResource) {
	r := o.GetResource()
	p.only(o, r.GetRole() != nil)
	p.add("name", tenancy.CheckRoleName(r.GetName()))
	given := r.GetRole().GetPermissions()
	p.length("permissions", len(given), len(tenancy.DataPlanePermissions()))
	for i, word := range given {
		if !tenancy.Permission(word).OfDataPlane() {
			p.item("permissions", i, "", fmt.Errorf("%.64q is no permission of a namespace", word))
		}
	}
}

// releaseRole refuses to take a role back that a key has.
func releaseRole(tx *state.Tx, was *state.Resource) error {
	for _, k := range tx.Keys() {
		if slices.Contains(k.Roles, was.Name) {
			return api.Errorf(api.Conflict, "API key %s has the role %q: give the key other roles or revoke it first", k.Id, was.Name)
		}
	}
	return nil
}

// keyRoles looks at the names of a key's roles.
func (p *problems) keyRoles(field string, roles []string) {
	p.length(field, len(roles), job.MaxKeyRoles)
	if len(roles) <= job.MaxKeyRoles {
		for i, role := range roles {
			p.item(field, i, "", checkWord(role, job.MaxKeyRole))
		}
	}
}

// keyScope looks at the queue globs of a key.
func (p *problems) keyScope(field string, globs []string) {
	if len(globs) > job.MaxKeyScope {
		p.length(field, len(globs), job.MaxKeyScope)
		return
	}
	for i, glob := range globs {
		p.item(field, i, "", checkWord(glob, job.MaxKeyGlob))
	}
}

// rolesAreThere refuses roles that a key cannot have, because nobody has made them.
func rolesAreThere(tx *state.Tx, roles []string) error {
	for _, name := range roles {
		if !tenancy.Role(name).Valid() && tx.Resource(kindRole, name) == nil {
			return api.Errorf(api.ValidationError, "there is no role %q: create it first, or use one of %v", name, tenancy.Roles())
		}
	}
	return nil
}

// administers says whether a key can undo everything that is done to keys, now and
// for ever.
func administers(k *state.Key) bool {
	return k.Enabled && k.ExpiresNs == 0 && len(k.QueueScope) == 0 && slices.Contains(k.Roles, string(tenancy.Admin))
}

// othersAdminister refuses what is about to befall a key where no other administers
// the namespace: a node that nobody can make keys for has to be made anew.
func othersAdminister(tx *state.Tx, k *state.Key) error {
	if !administers(k) || slices.ContainsFunc(tx.Keys(), func(other *state.Key) bool { return other.Id != k.Id && administers(other) }) {
		return nil
	}
	return api.Errorf(api.Conflict, "API key %s is the last that administers this namespace: no other is enabled, has the role admin, covers every queue and never expires. Create such a key first: without one, nobody could make keys any more", k.Id)
}
