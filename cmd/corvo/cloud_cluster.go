package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/misuse"
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
		}, func(w io.Writer, c api.CloudCluster) {
			showOne(w, c, append(columns, column[api.CloudCluster]{"COPIES TO ENTRY", copies})...)
		})),
		onCloud(r, "pause ID", "Pause the reconciliation of a namespace", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("paused"), c.PauseReconcile(cmd.Context(), args[0])
		}, showStatus),
		onCloud(r, "resume ID", "Resume the reconciliation of a namespace", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("resumed"), c.ResumeReconcile(cmd.Context(), args[0])
		}, showStatus),
		moveCluster(r),
		recoverCluster(r),
	)
}

// moveCluster makes the command that moves a member of a namespace to another host.
func moveCluster(r *remote) *cobra.Command {
	var from, to string
	var wait waitFlags
	cmd := onCloud(r, "move ID", "Move a member of a namespace to another host", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
		var f misuse.Faults
		f.Refuse(from != "", "--from is missing: name the host that the member leaves")
		f.Refuse(to != "", "--to is missing: name the host that gets the member")
		if err := cmp.Or(f.Err(), wait.check()); err != nil {
			return api.Status{}, err
		}
		status, err := c.MoveCluster(cmd.Context(), args[0], from, to)
		if err == nil && wait.wait && status == api.ClusterMoving {
			err = awaitMoved(cmd, c, args[0], to, wait.most)
			status = api.ClusterMoved
		}
		return done(status), err
	}, showStatus)
	cmd.Long = "Move a member of a namespace to another host. The new copy is made before the old one goes. The exit code with --wait\n" +
		"is 0 when the move has ended, and 3 when --timeout is over first. The move goes on in any case."
	cmd.Flags().StringVar(&from, "from", "", "`host` that the member leaves, by id or name")
	cmd.Flags().StringVar(&to, "to", "", "`host` that gets the member, by id or name")
	wait.bind(cmd, "wait until the move has ended")
	return cmd
}

// awaitMoved waits until a namespace's list of members, with one on the host to, is in effect. most bounds the wait; 0 = no
// bound. It returns an error if the list has no member there any more, for instance because the host has failed.
func awaitMoved(cmd *cobra.Command, c *client.Cloud, id, to string, most time.Duration) error {
	var waits string
	return poll(cmd, most, func(p *progress) (bool, error) {
		cluster, err := c.Cluster(cmd.Context(), id)
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(cluster.Status.Members, func(m api.CloudClusterMember) bool { return (m.Host == to || m.HostName == to) && !m.Leaving }) {
			return false, fmt.Errorf("namespace %s has no member on host %s any more: corvo cloud clusters show %s says where its members are", id, to, id)
		}
		waits = cmp.Or(cluster.Status.Waiting, "the control plane has not acted on it yet")
		p.show(0, 0, fmt.Sprintf("%s: %s", cluster.Name, waits))
		return cluster.Status.ObservedGeneration == cluster.Generation, nil
	}, func() string {
		return fmt.Sprintf("after %v the move of namespace %s to %s is not in effect yet, and goes on: %s", most, id, to, waits)
	})
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
