package server

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// Custom roles of a namespace are named sets of permissions for its keys. Their routes work like a node's
// /api/v1/auth/roles.

// roleRoutes returns the routes for the roles of a namespace.
func (s *Server) roleRoutes() []serve.Route {
	const path = cloud + "/namespaces/{ns}/roles"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: tenancy.KeyManage, Handler: s.listRoles, Query: paging,
			Summary: "List the roles of a namespace, built-in roles first", Response: rolePage{}},
		{Method: "POST", Path: path, Permission: tenancy.KeyManage, Handler: s.createRole,
			Summary: "Create a role in a namespace", Request: api.RoleRequest{}, Response: api.Role{}, Status: http.StatusCreated},
		{Method: "GET", Path: path + "/{id}", Permission: tenancy.KeyManage, Handler: s.getRole,
			Summary: "Get a role of a namespace by name", Response: api.Role{}},
		{Method: "PUT", Path: path + "/{id}", Permission: tenancy.KeyManage, Handler: s.putRole, Conditions: versioned,
			Summary: "Replace the permissions of a role, or create it", Description: "The change applies to all keys with the role.", Request: api.RoleRequest{}, Response: api.Role{}},
		{Method: "DELETE", Path: path + "/{id}", Permission: tenancy.KeyManage, Handler: s.deleteRole, Conditions: versioned,
			Summary: "Delete a role that no key uses", Response: api.Status{}},
	}
}

func (s *Server) listRoles(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	ns, err := s.namespace(q, tenancy.KeyManage)
	if err != nil {
		return err
	}
	list := "roles of " + string(ns.ID)
	limit, after, err := pageOf(r, list)
	if err != nil {
		return err
	}
	custom, err := s.store.Roles(r.Context(), ns.ID)
	if err != nil {
		return err
	}
	var all []api.Role
	for _, name := range tenancy.Roles() {
		all = append(all, toBuiltInRole(name))
	}
	for _, role := range custom {
		all = append(all, toRole(role))
	}
	// The position of a built-in role begins with 0, so that built-in roles come first.
	position := func(role api.Role) string {
		if role.BuiltIn {
			return fmt.Sprintf("0%d", slices.Index(tenancy.Roles(), tenancy.Role(role.Name)))
		}
		return "1" + role.Name
	}
	all = slices.DeleteFunc(all, func(role api.Role) bool { return position(role) <= after })
	return writePage(w, list, limit, all[:min(len(all), limit+1)], position, func(role api.Role) api.Role { return role })
}

func (s *Server) getRole(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	ns, err := s.namespace(q, tenancy.KeyManage)
	if err != nil {
		return err
	}
	if name := tenancy.Role(r.PathValue("id")); name.Valid() {
		return writeResource(w, http.StatusOK, 1, toBuiltInRole(name))
	}
	role, err := s.store.Role(r.Context(), ns.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeResource(w, http.StatusOK, role.Version, toRole(role))
}

func (s *Server) createRole(w http.ResponseWriter, r *http.Request) error {
	var body api.RoleRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	ns, err := s.namespace(q, tenancy.KeyManage)
	if err != nil {
		return err
	}
	return s.declareRole(w, q, ns, body, nil)
}

// putRole replaces a role, or creates it.
func (s *Server) putRole(w http.ResponseWriter, r *http.Request) error {
	var body api.RoleRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	ns, err := s.namespace(q, tenancy.KeyManage)
	if err != nil {
		return err
	}
	name := r.PathValue("id")
	var f faults
	if body.Name != "" && body.Name != name {
		f.add("name", "is %s, but the path names %s: make them the same", text.Quote(body.Name), text.Quote(name))
	}
	if err := f.err(); err != nil {
		return err
	}
	body.Name = name
	was, err := s.store.Role(r.Context(), ns.ID, name)
	switch {
	case err == nil:
		return s.declareRole(w, q, ns, body, &was)
	case api.CodeOf(err) != api.NotFound:
		return err
	case len(r.Header.Values(serve.IfMatch)) > 0:
		return api.Errorf(api.PreconditionFailed, "there is no role %s, so it has no version: leave If-Match out to create it", text.Quote(name))
	}
	return s.declareRole(w, q, ns, body, nil)
}

// declareRole proposes the role that a body describes and writes the response. was is the role that the new
// one replaces; nil = none. The caller needs the permissions of both roles.
func (s *Server) declareRole(w http.ResponseWriter, q request, ns fleet.Namespace, body api.RoleRequest, was *fleet.Role) error {
	if err := builtIn(body.Name); err != nil {
		return err
	}
	var f faults
	role := f.role(body)
	if err := f.err(); err != nil {
		return err
	}
	o := &store.PutRole{Meta: q.meta, Namespace: string(ns.ID), Name: role.Name, Create: was == nil}
	for _, p := range role.Permissions {
		o.Permissions = append(o.Permissions, string(p))
	}
	var err error
	if was != nil {
		if err := mayDeclare(q, *was); err != nil {
			return err
		}
		if o.IfVersion, err = expected(q.Request, was.Version); err != nil {
			return err
		}
	}
	if err := mayDeclare(q, role); err != nil {
		return err
	}
	if o.CallerVersion, err = s.callerVersion(q); err != nil {
		return err
	}
	made, err := propose[*store.PutRoleResult](q.Context(), s, o)
	if err != nil {
		return err
	}
	role.Version, role.CreatedNs = made.Version, made.CreatedNs
	status := http.StatusOK
	if made.Created {
		status = http.StatusCreated
	}
	return writeResource(w, status, role.Version, toRole(role))
}

func (s *Server) deleteRole(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	ns, err := s.namespace(q, tenancy.KeyManage)
	if err != nil {
		return err
	}
	name := r.PathValue("id")
	if err := builtIn(name); err != nil {
		return err
	}
	was, err := s.store.Role(r.Context(), ns.ID, name)
	if err != nil {
		return err
	}
	if err := mayDeclare(q, was); err != nil {
		return err
	}
	o := &store.DeleteRole{Meta: q.meta, Namespace: string(ns.ID), Name: name}
	if o.IfVersion, err = expected(r, was.Version); err != nil {
		return err
	}
	if o.CallerVersion, err = s.callerVersion(q); err != nil {
		return err
	}
	if _, err := propose[any](r.Context(), s, o); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}

// builtIn refuses to change a built-in role.
func builtIn(name string) error {
	if !tenancy.Role(name).Valid() {
		return nil
	}
	return api.Errorf(api.Conflict, "the role %s is built in and cannot be changed: create another with the permissions you want", name)
}

// mayDeclare refuses to declare or delete a role with permissions beyond the caller's own. The caller must
// not be limited to some queues, because a role applies to keys of every queue.
func mayDeclare(q request, role fleet.Role) error {
	if len(q.who.QueueScope) > 0 {
		return api.Errorf(api.Forbidden, "a role is about the whole namespace; %s covers only %v", q.who, q.who.QueueScope)
	}
	return tenancy.MayGive(q.who, tenancy.Where{Org: q.who.Org}, role.Permissions)
}

// mayGrant refuses a key with rights beyond the caller's own. custom lists the custom roles of the key's
// namespace.
func mayGrant(q request, key tenancy.Key, custom []fleet.Role) error {
	where := tenancy.Where{Org: q.who.Org}
	if err := tenancy.MayGrant(q.who, where, key.Roles, key.QueueScope); err != nil {
		return err
	}
	for _, role := range custom {
		if !slices.Contains(key.Roles, tenancy.Role(role.Name)) {
			continue
		}
		if err := tenancy.MayGive(q.who, where, role.Permissions); err != nil {
			return err
		}
	}
	return nil
}

// role validates a request and returns the custom role that it describes, its permissions in the standard
// order.
func (f *faults) role(r api.RoleRequest) fleet.Role {
	role := fleet.Role{Name: r.Name}
	if err := tenancy.CheckRoleName(r.Name); err != nil {
		f.add("name", "%v", err)
	}
	if len(r.Permissions) == 0 {
		f.add("permissions", "is empty: give at least one of %v", tenancy.DataPlanePermissions())
	}
	for i, word := range r.Permissions {
		if !tenancy.Permission(word).OfDataPlane() {
			f.add(fmt.Sprintf("permissions[%d]", i), "%s is not a permission of a namespace: use some of %v", text.Quote(word), tenancy.DataPlanePermissions())
		}
	}
	for _, p := range tenancy.DataPlanePermissions() {
		if slices.Contains(r.Permissions, string(p)) {
			role.Permissions = append(role.Permissions, p)
		}
	}
	return role
}

func toRole(r fleet.Role) api.Role {
	at := timeOf(r.CreatedNs)
	shown := api.Role{Name: r.Name, Permissions: []string{}, CreatedAt: &at, Version: r.Version}
	for _, p := range r.Permissions {
		shown.Permissions = append(shown.Permissions, string(p))
	}
	return shown
}

// toBuiltInRole converts a built-in role, with its permissions in a namespace.
func toBuiltInRole(role tenancy.Role) api.Role {
	shown := api.Role{Name: string(role), Permissions: []string{}, BuiltIn: true, Version: 1}
	for _, p := range role.Permissions() {
		if p.OfDataPlane() {
			shown.Permissions = append(shown.Permissions, string(p))
		}
	}
	return shown
}
