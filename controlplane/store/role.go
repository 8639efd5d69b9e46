package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

const roleColumns = "name, permissions, created_ns, version"

func scanRole(rows *sql.Rows) (r fleet.Role, err error) {
	var permissions string
	err = rows.Scan(&r.Name, &permissions, &r.CreatedNs, &r.Version)
	for _, p := range strings.Fields(permissions) {
		r.Permissions = append(r.Permissions, tenancy.Permission(p))
	}
	return r, err
}

// roles lists the custom roles of a namespace, by name.
func roles(q querier, namespace string) ([]fleet.Role, error) {
	return list(q, scanRole, "SELECT "+roleColumns+" FROM roles WHERE namespace = ? ORDER BY name", namespace)
}

// role finds a custom role of a namespace.
func role(q querier, namespace, name string) (r fleet.Role, found bool, err error) {
	return first(q, scanRole, "SELECT "+roleColumns+" FROM roles WHERE namespace = ? AND name = ?", namespace, name)
}

func noRole(name string) error { return api.Errorf(api.NotFound, "there is no role %q", name) }

// roleAt finds the role that an op changes. It refuses a missing role with NOT_FOUND, and a version other than the
// role's with PRECONDITION_FAILED; 0 = any.
func (tx *Tx) roleAt(namespace, name string, version int64) (fleet.Role, error) {
	r, found, err := role(tx, namespace, name)
	switch {
	case err != nil:
		return r, err
	case !found:
		return r, noRole(name)
	case version != 0 && version != r.Version:
		return r, api.Errorf(api.PreconditionFailed, "role %s has version %d, not %d: read it again", name, r.Version, version)
	}
	return r, nil
}

// checkKeyRoles refuses with VALIDATION_ERROR roles that a credential cannot have. A namespace's key has
// built-in roles and custom roles of its namespace. A cloud token has built-in roles only, because it is
// valid in all namespaces of its organisation.
func (tx *Tx) checkKeyRoles(kind keyring.Kind, owner string, names []string) error {
	if kind != keyring.Namespace && kind != keyring.Org {
		return nil // Validate has checked the roles of other kinds
	}
	for _, name := range names {
		if tenancy.Role(name).Valid() {
			continue
		}
		if kind == keyring.Org {
			if slices.Contains(tenancy.TokenRoles(), tenancy.Role(name)) {
				continue
			}
			return api.Errorf(api.ValidationError, "a cloud token cannot have the role %q: use some of %v", name, tenancy.Roles())
		}
		switch _, found, err := role(tx, owner, name); {
		case err != nil:
			return err
		case !found:
			return api.Errorf(api.ValidationError, "there is no role %q: create it first, or use one of %v", name, tenancy.Roles())
		}
	}
	return nil
}

// keyWith finds the oldest key of a namespace that has a role and has not expired, even if it is disabled; "" = none.
func (tx *Tx) keyWith(namespace, name string) (id string, err error) {
	all, err := list(tx, scanCredential, selectCredential+" WHERE owner = ? AND (expires_ns = 0 OR expires_ns > ?) ORDER BY created_ns, id", namespace, tx.clockNs())
	for _, c := range all {
		if c.Kind == keyring.Namespace && slices.Contains(c.Roles, tenancy.Role(name)) {
			return c.ID, err
		}
	}
	return "", err
}

// checkPermissions adds the faults of a custom role's permissions: a wrong number of them, and words that are not
// permissions of the data plane.
func checkPermissions(p *problems, permissions []string) {
	if n, most := len(permissions), len(tenancy.DataPlanePermissions()); n == 0 || n > most {
		p.add("permissions", fmt.Errorf("has %d entries: it takes 1 to %d", n, most))
		return
	}
	for i, word := range permissions {
		if !tenancy.Permission(word).OfDataPlane() {
			p.add(fmt.Sprintf("permissions[%d]", i), fmt.Errorf("%.64q is not a permission of a namespace", word))
		}
	}
}

// Roles lists the custom roles of a namespace, by name.
func (s *Store) Roles(ctx context.Context, namespace tenancy.NamespaceID) ([]fleet.Role, error) {
	return read(ctx, s, func(r reader) ([]fleet.Role, error) { return roles(r, string(namespace)) })
}

// Role finds a custom role of a namespace, else NOT_FOUND.
func (s *Store) Role(ctx context.Context, namespace tenancy.NamespaceID, name string) (fleet.Role, error) {
	return read(ctx, s, func(r reader) (fleet.Role, error) {
		found, ok, err := role(r, string(namespace), name)
		if err == nil && !ok {
			err = noRole(name)
		}
		return found, err
	})
}
