package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// status is the output of corvo status.
type status struct {
	Queues []api.Queue `json:"queues"`
	// Cluster is absent if the key may not see it; ClusterError then says why.
	Cluster      *api.ClusterStatus `json:"cluster,omitempty"`
	ClusterError *api.Error         `json:"-"`
}

func newStatus() *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use: "status", Short: "Show the queues and the health of the cluster", Args: cobra.NoArgs,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (status, error) {
			return statusOf(cmd, c)
		}, showOverview),
	}
	r.bind(cmd)
	return cmd
}

func statusOf(cmd *cobra.Command, c *client.Client) (s status, err error) {
	if s.Queues, err = c.Queues(cmd.Context(), client.Read{}); err != nil {
		return s, err
	}
	cluster, err := c.ClusterStatus(cmd.Context())
	if s.ClusterError = hidden(err); s.ClusterError != nil {
		return s, nil
	}
	s.Cluster = &cluster
	return s, err
}

// hidden returns an error that says that this key may not see something or that it does not exist, else nil.
func hidden(err error) *api.Error {
	switch api.CodeOf(err) {
	case api.Forbidden, api.NotFound, api.Unsupported:
		return &api.Error{Code: api.CodeOf(err), Message: oneLine(err)}
	}
	return nil
}

func showOverview(w io.Writer, s status) {
	showQueues(w, s.Queues)
	fmt.Fprintln(w)
	if s.Cluster == nil {
		fmt.Fprintf(w, "The cluster is not shown: %s\n", s.ClusterError.Message)
		return
	}
	showCluster(w, *s.Cluster)
	fmt.Fprintf(w, "\nhealth: %s; the search view is %d entries behind\n", healthText(*s.Cluster), s.Cluster.View.Lag)
}

// healthText lists the faults of a cluster, or returns ok.
func healthText(s api.ClusterStatus) string {
	var wrong []string
	for _, shard := range s.ShardStatus {
		if shard.LeaderID == "" {
			wrong = append(wrong, fmt.Sprintf("shard %d has no leader", shard.Shard))
		}
	}
	if len(s.ShardStatus) == 0 && s.LeaderID == "" {
		wrong = append(wrong, "there is no leader")
	}
	for _, n := range s.Nodes {
		if !n.Self && !n.Connected {
			wrong = append(wrong, fmt.Sprintf("node %s is not connected", n.ID))
		}
	}
	if len(wrong) == 0 {
		return "ok"
	}
	return strings.Join(wrong, ", ")
}

func newWorkers() *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use: "workers", Short: "List workers that fetch or hold jobs", Args: cobra.NoArgs,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) ([]api.Worker, error) {
			return c.Workers(cmd.Context(), client.Read{})
		}, func(w io.Writer, all []api.Worker) {
			showList(w, all, []column[api.Worker]{
				{"WORKER", func(w api.Worker) string { return w.ID }},
				{"HOST", func(w api.Worker) string { return w.Hostname }},
				{"ACTIVE", func(w api.Worker) string { return bounded(count(w.Active), limit(w.Concurrency)) }},
				{"DRAINING", func(w api.Worker) string { return yes(w.Draining) }},
				{"STARTED", func(w api.Worker) string { return clock(w.StartedAt) }},
				{"LAST SEEN", func(w api.Worker) string { return clock(w.LastHeartbeat) }},
				{"QUEUES", func(w api.Worker) string { return strings.Join(w.Queues, ", ") }},
			})
		}),
	}
	r.bind(cmd)
	return cmd
}
