package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

var roles = resource[api.RoleRequest, api.Role]{
	use: "roles", short: "Manage roles, sets of permissions for API keys", one: "role", many: "roles", arg: "ROLE",
	list: (*client.Client).Roles, get: (*client.Client).Role, create: (*client.Client).CreateRole,
	put: (*client.Client).PutRole, remove: (*client.Client).DeleteRole,
	version: func(r *api.Role) int64 { return r.Version },
	begin: func(req *api.RoleRequest, arg string) error {
		req.Name = arg
		return nil
	},
	flags: []edit[api.RoleRequest]{
		set("permissions", "permissions of the role, such as job.read,queue.read", names, func(r *api.RoleRequest) *[]string { return &r.Permissions }),
	},
	columns: []column[api.Role]{
		{"ROLE", func(r api.Role) string { return r.Name }},
		{"BUILT IN", func(r api.Role) string { return yes(r.BuiltIn) }},
		{"PERMISSIONS", func(r api.Role) string { return strings.Join(r.Permissions, ", ") }},
	},
	details: []column[api.Role]{
		{"CREATED", func(r api.Role) string { return maybe(r.CreatedAt, clock) }},
	},
}

func newRoles() *cobra.Command { return roles.command() }
