package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// roles declares the resource for custom roles, which are sets of permissions. A role concerns all queues of
// the namespace; a key has a role together with its own queue scope. To declare or delete a role, the caller
// must have no queue scope and needs every permission that the role grants or granted before, because the
// change gives these permissions to all holders of the role or takes them away.
var roles = resource[api.RoleRequest, api.Role]{
	kind: state.ResourceKind_RESOURCE_KIND_ROLE,
	path: "/auth/roles", item: "/{id}", one: "role", many: "roles, built-in roles first",
	read: tenancy.KeyManage, write: tenancy.KeyManage,
	named:  inPath,
	nameOf: func(body *api.RoleRequest) string { return body.Name },
	nameIn: "name",
	from:   convert.FromRole,
	to:     func(_ *cell.Cell, r *state.Resource) (api.Role, error) { return convert.ToRole(r), nil },
	queue:  func(*state.Resource) string { return "" },
	may: func(q *request, r *state.Resource) error {
		return tenancy.MayGive(q.who, tenancy.Where{Namespace: q.who.Namespace}, convert.Granted(r))
	},
}

// roleRoutes returns the routes of custom and built-in roles. A built-in role can be listed and read; a
// change of it gets CONFLICT. On a host of the cloud all these routes return UNSUPPORTED, because the control
// plane keeps the roles of its namespaces.
func (s *Server) roleRoutes() []serve.Route {
	routes := roles.routes(s)
	for i, route := range routes {
		declared := route.Handler
		routes[i].Handler = func(w http.ResponseWriter, r *http.Request) error {
			if err := s.own(r, "roles"); err != nil {
				return err
			}
			name := tenancy.Role(inPath(r))
			switch {
			case r.Method == http.MethodPost || !name.Valid() && name != "":
				return declared(w, r)
			case name == "":
				return s.listRoles(w, r)
			case r.Method == http.MethodGet || r.Method == http.MethodHead:
				return writeVersion(w, http.StatusOK, 1, convert.ToBuiltInRole(name))
			}
			return api.Errorf(api.Conflict, "the role %s is built in and cannot be changed: create another with the permissions you want", name)
		}
	}
	return routes
}

func (s *Server) listRoles(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	if err := s.awaitState(r, &q, q.shards.Home()); err != nil {
		return err
	}
	all := []api.Role{}
	for _, role := range tenancy.Roles() {
		all = append(all, convert.ToBuiltInRole(role))
	}
	for _, rec := range q.shards.Home().State().ResourceIndex().Resources(roles.kind) {
		all = append(all, convert.ToRole(rec))
	}
	return serve.WriteJSON(w, http.StatusOK, all)
}
