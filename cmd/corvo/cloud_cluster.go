package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudClusters makes the commands about the data-plane clusters of namespaces.
func cloudClusters(r *remote) *cobra.Command {
	columns := []column[api.CloudCluster]{
		{"NAMESPACE", func(c api.CloudCluster) string { return c.Name }},
		{"ID", func(c api.CloudCluster) string { return c.ID }},
		{"ORGANISATION", func(c api.CloudCluster) string { return c.Org }},
		{"PHASE", func(c api.CloudCluster) string { return c.Status.Phase }},
		{"GENERATION", generations},
		{"HOST", eachMember(func(m api.CloudClusterMember) string { return cmp.Or(m.HostName, m.Host) })},
		{"HOST STATE", eachMember(func(m api.CloudClusterMember) string { return m.HostState })},
		{"STORE", eachMember(memberStore)},
		{"CELLS", eachMember(func(m api.CloudClusterMember) string { return known(m.State) })},
		{"LEADERS", eachGroup(func(g api.CloudClusterGroup) string { return cmp.Or(g.LeaderHost, known(g.Leader)) })},
		{"LISTS", eachGroup(func(g api.CloudClusterGroup) string { return count(g.ListGeneration) })},
		{"VOTERS", eachGroup(groupMembers)},
		{"PAUSED", func(c api.CloudCluster) string {
			return maybe(c.Status.Pause, func(p api.ReconcilePause) string { return fmt.Sprintf("%s by %s", clock(p.At), p.By) })
		}},
		{"WAITS OR FAILS", func(c api.CloudCluster) string { return cmp.Or(c.Status.Waiting, c.Status.Fault) }},
	}
	return below("clusters", "Manage the data-plane clusters of namespaces (operators only)",
		onCloud(r, "list", "List the data-plane clusters of all namespaces", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) ([]api.CloudCluster, error) {
			return c.Clusters(cmd.Context())
		}, func(w io.Writer, all []api.CloudCluster) { showList(w, all, columns) }),
		alias("get", onCloud(r, "show ID", "Show the data-plane cluster of a namespace", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.CloudCluster, error) {
			return c.Cluster(cmd.Context(), args[0])
		}, func(w io.Writer, c api.CloudCluster) { showOne(w, c, columns...) })),
		onCloud(r, "pause ID", "Pause the reconciliation of a namespace", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("paused"), c.PauseReconcile(cmd.Context(), args[0])
		}, showStatus),
		onCloud(r, "resume ID", "Resume the reconciliation of a namespace", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("resumed"), c.ResumeReconcile(cmd.Context(), args[0])
		}, showStatus),
	)
}

// generations returns the generation in effect, and the newer one that is to take effect if they differ.
func generations(c api.CloudCluster) string {
	if c.Status.ObservedGeneration == c.Generation {
		return count(c.Generation)
	}
	return fmt.Sprintf("%d, not yet %d", c.Status.ObservedGeneration, c.Generation)
}

// eachMember returns a cell with a word for each member of a cluster.
func eachMember(word func(api.CloudClusterMember) string) func(api.CloudCluster) string {
	return func(c api.CloudCluster) string {
		words := make([]string, len(c.Status.Members))
		for i, m := range c.Status.Members {
			words[i] = word(m)
		}
		return strings.Join(words, ", ")
	}
}

// eachGroup returns a cell with a word for the group of each shard.
func eachGroup(word func(api.CloudClusterGroup) string) func(api.CloudCluster) string {
	return func(c api.CloudCluster) string {
		words := make([]string, len(c.Status.Groups))
		for i, g := range c.Status.Groups {
			words[i] = word(g)
		}
		return strings.Join(words, ", ")
	}
}

// groupMembers returns the number of voters of a group, and that of its learners if it has some.
func groupMembers(g api.CloudClusterGroup) string {
	if len(g.Learners) == 0 {
		return count(len(g.Voters))
	}
	return fmt.Sprintf("%d + %d learning", len(g.Voters), len(g.Learners))
}

// memberStore returns the store of a member, and whether it is lost or leaves.
func memberStore(m api.CloudClusterMember) string {
	if m.Leaving {
		return m.Store + " (leaves)"
	}
	if m.StoreLost {
		return m.Store + " (lost)"
	}
	return known(m.Store)
}
