package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudRoles makes the commands about the roles of a cloud namespace. They print a role
// as the commands about a node's roles do.
func cloudRoles(r *remote) *cobra.Command {
	return below("roles", "Manage the roles of the API keys of --namespace",
		onCloud(r, "list", "List roles, built-in roles first", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) ([]api.Role, error) {
			ns, err := namespaceOf(r, "roles")
			if err != nil {
				return nil, err
			}
			return c.NamespaceRoles(cmd.Context(), ns)
		}, func(w io.Writer, all []api.Role) { showList(w, all, roles.columns) }),
		onCloud(r, "get ROLE", "Show a role", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (role api.Role, err error) {
			ns, err := namespaceOf(r, "roles")
			if err != nil {
				return role, err
			}
			return c.NamespaceRole(cmd.Context(), ns, args[0])
		}, roles.show),
		settingRole(r),
		onCloud(r, "delete ROLE", "Delete a role that no key uses", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			ns, err := namespaceOf(r, "roles")
			if err != nil {
				return api.Status{}, err
			}
			return done("deleted"), c.DeleteNamespaceRole(cmd.Context(), ns, args[0], 0)
		}, showStatus),
	)
}

// settingRole makes the command that creates a role or changes its permissions.
func settingRole(r *remote) *cobra.Command {
	var made edits[api.RoleRequest]
	cmd := onCloud(r, "set ROLE", "Change or create a role, for all keys that use it", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (role api.Role, err error) {
		ns, err := namespaceOf(r, "roles")
		if err != nil {
			return role, err
		}
		was, err := c.NamespaceRole(cmd.Context(), ns, args[0])
		if err != nil && api.CodeOf(err) != api.NotFound {
			return role, err
		}
		req := api.RoleRequest{Name: args[0], Permissions: was.Permissions}
		made.apply(&req)
		if was.Version == 0 {
			return c.CreateNamespaceRole(cmd.Context(), ns, req)
		}
		return c.PutNamespaceRole(cmd.Context(), ns, args[0], req, was.Version)
	}, roles.show)
	made.bind(cmd, roles.flags...)
	return cmd
}
