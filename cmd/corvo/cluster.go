package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

func newCluster() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{Use: "cluster", Short: "Show a cluster and change its members"})
	r.bind(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use: "status", Short: "Show the nodes of the cluster and their lag", Args: cobra.NoArgs,
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (api.ClusterStatus, error) {
				return c.ClusterStatus(cmd.Context())
			}, showCluster),
		},
		&cobra.Command{
			Use: "add ADDRESS", Short: "Add a node that was started with --bootstrap=false", Args: cobra.ExactArgs(1),
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Status, error) {
				return done("invited"), c.AddNode(cmd.Context(), args[0])
			}, showStatus),
		},
		&cobra.Command{
			Use: "remove ID", Short: "Remove a node from the cluster", Args: cobra.ExactArgs(1),
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Status, error) {
				return done("removed"), c.RemoveNode(cmd.Context(), args[0])
			}, showStatus),
		},
		&cobra.Command{
			Use: "transfer [ID]", Short: "Transfer leadership to a node, or away from the current leaders", Args: cobra.MaximumNArgs(1),
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Status, error) {
				to := ""
				if len(args) > 0 {
					to = args[0]
				}
				return done("transferred"), c.TransferLeadership(cmd.Context(), to)
			}, showStatus),
		},
	)
	return cmd
}

// known returns the text of a table cell, with a dash for an unknown value.
func known(text string) string { return cmp.Or(text, "-") }

func done(what string) api.Status { return api.Status{Status: what} }

func showStatus(w io.Writer, s api.Status) { fmt.Fprintln(w, s.Status) }

func showCluster(w io.Writer, s api.ClusterStatus) {
	fmt.Fprintf(w, "%s %s, shards: %d, log store: %s; node %s is %s in term %d\n\n", s.Mode, s.Cluster, s.Shards, s.RaftStore, s.NodeID, s.State, s.Term)
	fmt.Fprintln(w, "NODE\tROLE\tVOTER\tLAG\tLAST CONTACT\tCLOCK\tVERSION\tADDRESS\tURL")
	for _, n := range s.Nodes {
		contact, clock := "", ""
		if n.LastContactMs >= 0 {
			contact = strconv.FormatInt(n.LastContactMs, 10) + " ms"
		}
		if n.Version != "" { // this node has heard of it
			clock = fmt.Sprintf("%+d ms", n.ClockOffsetMs)
		}
		fmt.Fprintf(w, "%s\t%s\t%v\t%d\t%s\t%s\t%s\t%s\t%s\n", n.ID, n.Role, n.Voter, n.Lag,
			known(contact), known(clock), known(n.Version), known(n.Address), known(n.URL))
	}
	if len(s.ShardStatus) > 1 {
		fmt.Fprintln(w, "\nSHARD\tSTATE HERE\tLEADER\tTERM\tAPPLIED\tCOMMITTED")
		for _, shard := range s.ShardStatus {
			fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%d\n", shard.Shard, shard.State, shard.LeaderID, shard.Term, shard.AppliedIndex, shard.CommitIndex)
		}
	}
}
