package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudOperators makes the commands about the keys of operators.
func cloudOperators(r *remote) *cobra.Command {
	return below("operators", "Manage the keys of operators (operators only)",
		onCloud(r, "list", "List the keys of operators", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) ([]api.Key, error) {
			return c.Operators(cmd.Context())
		}, func(w io.Writer, all []api.Key) {
			showList(w, all, []column[api.Key]{
				{"ID", func(k api.Key) string { return k.ID }},
				{"NAME", func(k api.Key) string { return k.Name }},
				{"CREATED", func(k api.Key) string { return clock(k.CreatedAt) }},
				{"LAST USED", func(k api.Key) string { return maybe(k.LastUsedAt, clock) }},
			})
		}),
		issuing(r, "create NAME", "Create a key for another operator and print it", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.CloudKey, error) {
			return c.CreateOperator(cmd.Context(), api.CreateOperatorRequest{Name: args[0]})
		}, func(k *api.CloudKey) *string { return &k.APIKey }, column[api.CloudKey]{"ID", func(k api.CloudKey) string { return k.ID }}),
		onCloud(r, "revoke ID", "Revoke the key of another operator", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("revoked"), c.RevokeOperator(cmd.Context(), args[0])
		}, showStatus),
	)
}
