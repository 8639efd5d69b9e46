package tenancy

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
)

// Principal is the authenticated caller of a request. The zero Principal has no permission anywhere.
type Principal struct {
	Namespace  NamespaceID // the only one it may touch; "" on the control plane
	Org        OrgID       // on the control plane the only one it may touch, or EveryOrg; "" on a data plane
	KeyID      string      // "" without a key
	Name       string      // for logs and the audit log
	Roles      []Role
	Custom     []Permission // the permissions of its custom roles
	QueueScope []Glob       // empty = every queue
	Open       bool         // has all permissions without a role: a node without keys, as by --dev
}

// Principal returns the principal of a request with the key k in a namespace.
func (k Key) Principal(namespace NamespaceID) Principal {
	return Principal{Namespace: namespace, KeyID: k.ID, Name: k.Name, Roles: k.Roles, Custom: k.Custom, QueueScope: k.QueueScope}
}

// Where is the place that a request touches.
type Where struct {
	Namespace NamespaceID
	Org       OrgID  // on the control plane
	Queue     string // "" checks only the permission, because a route does not know the queues before its handler runs
}

// Allow returns nil if `who` has the permission `what` in `where`, or else an *api.Error FORBIDDEN with the
// reason. It refuses everything that is not expressly granted: the zero Principal, another namespace or
// organisation, an unknown role, an unknown permission, a queue outside the queue scope.
func Allow(who Principal, what Permission, where Where) error {
	switch {
	case !who.belongs(where):
		return api.Errorf(api.Forbidden, "%s has no permissions in this %s", who, where.kind())
	case !what.Valid():
		return api.Errorf(api.Forbidden, "%q is not a permission", string(what))
	case !who.grants(what):
		return api.Errorf(api.Forbidden, "%s lacks the right %s: its roles are %v; use a key with a role that grants it", who, what, who.Roles)
	case where.Queue != "" && !who.covers(where.Queue):
		return api.Errorf(api.Forbidden, "%s may not %s in queue %q: its queue scope is %v", who, what, where.Queue, who.QueueScope)
	}
	return nil
}

// MayGrant checks a key that the principal creates, changes or revokes in `where`. It returns an *api.Error
// FORBIDDEN if the built-in roles or the queue scope of the key go beyond the principal's own permissions
// there. The caller checks the key's custom roles with MayGive. The operators of the cloud have no
// permissions in tenants' data and may still grant all, because somebody must create an organisation's first
// token.
func MayGrant(who Principal, where Where, roles []Role, scope []Glob) error {
	if who.Org == EveryOrg {
		return nil
	}
	for _, role := range roles {
		for _, p := range granted[role] {
			if Allow(who, p, where) != nil {
				return api.Errorf(api.Forbidden, "the role %s has the right %s, which %s has not", role, p, who)
			}
		}
	}
	if len(who.QueueScope) == 0 {
		return nil
	}
	if len(scope) == 0 {
		return api.Errorf(api.Forbidden, "a key without queue_scope covers every queue; %s covers %v", who, who.QueueScope)
	}
	for _, g := range scope {
		// Only a star of a pattern matches a star, so this checks whether one of the principal's patterns
		// covers every queue that g covers.
		if !who.covers(string(g)) {
			return api.Errorf(api.Forbidden, "queue_scope %q goes beyond %v, the scope of %s", string(g), who.QueueScope, who)
		}
	}
	return nil
}

// belongs reports whether `where` lies in the namespace or organisation of the principal.
func (p Principal) belongs(where Where) bool {
	switch {
	case p.Namespace != "":
		return p.Namespace == where.Namespace && p.Org == where.Org
	case p.Org == EveryOrg:
		return where.Org != "" && where.Namespace == ""
	}
	return p.Org != "" && p.Org == where.Org && where.Namespace == ""
}

func (w Where) kind() string {
	if w.Org != "" {
		return "organisation"
	}
	return "namespace"
}

// Covers reports whether the queue is in the principal's scope. Lists use it to leave out other queues.
func (p Principal) Covers(queue string) bool { return p.covers(queue) }

func (p Principal) grants(what Permission) bool {
	return p.Open || slices.ContainsFunc(p.Roles, func(r Role) bool { return r.Grants(what) }) || slices.Contains(p.Custom, what)
}

func (p Principal) covers(queue string) bool {
	return len(p.QueueScope) == 0 || slices.ContainsFunc(p.QueueScope, func(g Glob) bool { return g.Match(queue) })
}

// String names the principal in messages.
func (p Principal) String() string {
	switch {
	case p.KeyID != "" && p.Name != "":
		return fmt.Sprintf("key %s (%s)", p.KeyID, p.Name)
	case p.KeyID != "":
		return "key " + p.KeyID
	case p.Name != "":
		return p.Name
	}
	return "a caller without a key"
}
