package tenancy

import (
	"fmt"
	"slices"
)

// MaxRoleName is the most characters of a custom role's name.
const MaxRoleName = 64

// A custom role is a name for permissions that somebody has chosen for a namespace.
// Keys have it by that name, beside built-in ones or alone; what it grants now is
// looked up where a request is authenticated, so that a change of the role is one of
// all keys that have it.

// CheckRoleName checks the name of a custom role: 1 to MaxRoleName letters, digits
// and . _ -, and not that of a role that is built in.
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

// BuiltIn says whether r is a role that no namespace can redefine.
func (r Role) BuiltIn() bool { _, ok := granted[r]; return ok }

// Permissions lists what a built-in role grants, in the order of the matrix.
func (r Role) Permissions() []Permission {
	return slices.DeleteFunc(Permissions(), func(p Permission) bool { return !r.Grants(p) })
}

// dataPlane is how many of permissions are the data plane's; they come first.
var dataPlane = slices.Index(permissions, OrgRead)

// DataPlanePermissions lists the permissions of the data plane: what a custom role
// can grant.
func DataPlanePermissions() []Permission { return slices.Clone(permissions[:dataPlane]) }

// OfDataPlane says whether p is one of DataPlanePermissions.
func (p Permission) OfDataPlane() bool { return slices.Contains(permissions[:dataPlane], p) }

// MayGive refuses to hand out, change or take away permissions that the principal does
// not have: those of a custom role, and with it of all keys that have it.
func MayGive(who Principal, where Where, given []Permission) error {
	for _, p := range given {
		if err := Allow(who, p, where); err != nil {
			return err
		}
	}
	return nil
}
