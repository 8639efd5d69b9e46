package convert

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// FromRole converts a role. It keeps each permission once, in the order of the permission matrix.
func FromRole(f *Faults, r *api.RoleRequest, _ *state.Resource, _ int64) *op.PutResource {
	if len(r.Permissions) == 0 {
		f.Invalid("permissions", "is empty; give at least one of %v", tenancy.DataPlanePermissions())
	}
	for i, word := range r.Permissions {
		if !tenancy.Permission(word).OfDataPlane() {
			f.Invalid(fmt.Sprintf("permissions[%d]", i), "%s is not a permission of a namespace: use some of %v", text.Quote(word), tenancy.DataPlanePermissions())
		}
	}
	role := &state.Role{}
	for _, p := range tenancy.DataPlanePermissions() {
		if slices.Contains(r.Permissions, string(p)) {
			role.Permissions = append(role.Permissions, string(p))
		}
	}
	return &op.PutResource{Resource: &state.Resource{Role: role}}
}

// ToRole converts a custom role to its API form.
func ToRole(r *state.Resource) api.Role {
	at := timeOf(r.CreatedNs)
	return api.Role{Name: r.Name, Permissions: append([]string{}, r.GetRole().GetPermissions()...), CreatedAt: &at, Version: int64(r.Version)}
}

// ToBuiltInRole converts a built-in role to its API form, with its permissions in a namespace.
func ToBuiltInRole(role tenancy.Role) api.Role {
	shown := api.Role{Name: string(role), Permissions: []string{}, BuiltIn: true, Version: 1}
	for _, p := range role.Permissions() {
		if p.OfDataPlane() {
			shown.Permissions = append(shown.Permissions, string(p))
		}
	}
	return shown
}

// Granted returns the permissions in a role's record. A word that is not a permission of the data plane
// grants nothing.
func Granted(r *state.Resource) (all []tenancy.Permission) {
	for _, word := range r.GetRole().GetPermissions() {
		if p := tenancy.Permission(word); p.OfDataPlane() {
			all = append(all, p)
		}
	}
	return all
}
