package tenancy

import (
	"fmt"
	"slices"
)

const (
	// MaxRoleName is the largest number of characters in a custom role's name.
	MaxRoleName = 64
	// MaxCustomRoles is the largest number of custom roles in a namespace.
	MaxCustomRoles = 100
)

// A custom role is a named set of permissions that a tenant defines in a namespace. A key has built-in and
// custom roles by name. The authenticator takes the permissions from the present definition of a custom role,
// so that a change of the role changes all keys with it.

// CheckRoleName refuses the name of a custom role if it does not have 1 to MaxRoleName characters, has a
// character other than ASCII letters, digits and . _ -, or is the name of a built-in role or of a role of the
// cloud.
func CheckRoleName(name string) error {
	if name == "" || len(name) > MaxRoleName {
		return fmt.Errorf("has %d characters: it takes 1 to %d", len(name), MaxRoleName)
	}
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("%q holds %q: it takes letters, digits, . _ and -", name, c)
		}
	}
	if Role(name).BuiltIn() {
		return fmt.Errorf("%q is built in: choose another name", name)
	}
	return nil
}

// BuiltIn reports whether r is one of Roles, TokenRoles or CloudRoles, which no namespace can redefine.
func (r Role) BuiltIn() bool { _, ok := granted[r]; return ok }

// Permissions lists the permissions of a built-in role, in the order of the matrix. It is empty for a custom role.
func (r Role) Permissions() []Permission {
	return slices.DeleteFunc(Permissions(), func(p Permission) bool { return !r.Grants(p) })
}

// dataPlane is the number of data-plane permissions. They come first in permissions.
var dataPlane = slices.Index(permissions, OrgRead)

// DataPlanePermissions lists the permissions of the data plane, which a custom role can have.
func DataPlanePermissions() []Permission { return slices.Clone(permissions[:dataPlane]) }

// OfDataPlane reports whether p is one of DataPlanePermissions.
func (p Permission) OfDataPlane() bool { return slices.Contains(permissions[:dataPlane], p) }

// MayGive checks the permissions of a custom role that the principal creates, changes, deletes or gives to a key.
// It returns an *api.Error FORBIDDEN if the principal lacks one of them, because the role passes them on to every
// key that has it. As in MayGrant, an operator of the cloud may give every permission.
func MayGive(who Principal, where Where, given []Permission) error {
	if who.Org == EveryOrg {
		return nil
	}
	for _, p := range given {
		if err := Allow(who, p, where); err != nil {
			return err
		}
	}
	return nil
}
