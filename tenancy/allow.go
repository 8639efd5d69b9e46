package tenancy

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
)

// Principal is who a request comes from, as established by its credential. The
// zero Principal may do nothing.
type Principal struct {
	Namespace  NamespaceID // the only one it may touch; "" on the control plane
	Org        OrgID       // on the control plane, the only one it may touch; else ""
	KeyID      string      // "" where there is no key
	Name       string      // for logs and audit
	Roles      []Role
	Custom     []Permission // what its roles grant that are not built in
	QueueScope []Glob       // none = every queue
	Open       bool         // needs no roles: a node without keys, as by --dev
}

// Principal is who holds k, in a namespace.
func (k Key) Principal(namespace NamespaceID) Principal {
	return Principal{Namespace: namespace, KeyID: k.ID, Name: k.Name, Roles: k.Roles, Custom: k.Custom, QueueScope: k.QueueScope}
}

// Where is what a request touches.
type Where struct {
	Namespace NamespaceID
	Org       OrgID  // on the control plane
	Queue     string // "" asks only for the right: for a route, before its handler knows the queues
}

// Allow decides whether who may do what there: nil, or an *api.Error FORBIDDEN
// that names the missing right. Whatever is not expressly granted is refused:
// the zero Principal, another namespace, a role or permission it does not know.
func Allow(who Principal, what Permission, where Where) error {
	switch {
	case !who.belongs(where):
		return api.Errorf(api.Forbidden, "%s has no rights in this %s", who, where.kind())
	case !what.Valid():
		return api.Errorf(api.Forbidden, "%q is no permission, so nobody has it", string(what))
	case !who.grants(what):
		return api.Errorf(api.Forbidden, "%s lacks the right %s: its roles are %v; use a key with a role that grants it", who, what, who.Roles)
	case where.Queue != "" && !who.covers(where.Queue):
		return api.Errorf(api.Forbidden, "%s may not %s in queue %q: its queue scope is %v", who, what, where.Queue, who.QueueScope)
	}
	return nil
}

// MayGrant refuses rights beyond the principal's own, at a place: those of the
// roles and the queue scope of a key it would give out, change or take away. Who
// runs the cloud has no rights in what tenants keep, and gives out all: an
// organisation's first token has to come from somewhere.
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
		// No part of a pattern but a star matches a star, so this says whether all
		// that g covers is covered by one of the principal's patterns.
		if !who.covers(string(g)) {
			return api.Errorf(api.Forbidden, "queue_scope %q goes beyond %v, the scope of %s", string(g), who.QueueScope, who)
		}
	}
	return nil
}

// belongs says whether the place is within the one the principal was made for.
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

// Covers says whether the queue is in the principal's scope, for lists that
// show only what the caller may see.
func (p Principal) Covers(queue string) bool { return p.covers(queue) }

func (p Principal) grants(what Permission) bool {
	return p.Open || slices.ContainsFunc(p.Roles, func(r Role) bool { return r.Grants(what) }) || slices.Contains(p.Custom, what)
}

func (p Principal) covers(queue string) bool {
	return len(p.QueueScope) == 0 || slices.ContainsFunc(p.QueueScope, func(g Glob) bool { return g.Match(queue) })
}

// String names the principal for messages.
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
