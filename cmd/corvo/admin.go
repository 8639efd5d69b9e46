package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

func newAdmin() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{Use: "admin", Short: "Maintain the node at the endpoint"})
	r.bind(cmd)
	cmd.AddCommand(
		newAudit(r),
		&cobra.Command{
			Use: "snapshot", Short: "Flush the state to disk and truncate the log", Args: cobra.NoArgs,
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (api.Status, error) {
				return c.TakeSnapshot(cmd.Context())
			}, showStatus),
		},
		&cobra.Command{
			Use: "verify", Short: "Check the node's store for corruption", Args: cobra.NoArgs,
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (api.Verified, error) {
				return c.VerifyStore(cmd.Context())
			}, showVerified),
		},
		&cobra.Command{
			Use: "rebuild-view", Short: "Rebuild the search view from the store", Args: cobra.NoArgs,
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (api.Status, error) {
				return c.RebuildView(cmd.Context())
			}, showStatus),
		},
		newBackup(r),
		newRestore(r),
		newImport(r),
	)
	return cmd
}

func showVerified(w io.Writer, v api.Verified) {
	fmt.Fprintln(w, "SHARD\tAPPLIED\tFILES\tBYTES")
	for _, s := range v.Shards {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\n", s.Shard, s.AppliedIndex, s.Files, s.Bytes)
	}
	fmt.Fprintln(w, v.Status)
}
