package main

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// freePort is a port of loopback that nobody listens on now. The nodes are told
// each other's before they start, so they cannot choose.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The documented compose file, on loopback: three processes become a cluster of
// three voters, lose their leader, go on, and take it back.
func TestTheComposeLinesMakeACluster(t *testing.T) {
	t.Parallel()
	token := tokenFile(t, "compose")
	ctx, cancel := context.WithTimeout(t.Context(), 2*proctest.StartTimeout)
	defer cancel()
	base := t.TempDir()
	names := []string{"node-0", "node-1", "node-2"}
	raft := map[string]string{}
	for _, name := range names {
		raft[name] = freePort(t)
	}
	start := func(name string) *process {
		args := []string{"--node-id", name, "--raft-bind", raft[name], "--data-dir", filepath.Join(base, name), "--join-token-file", token}
		if name == "node-0" {
			args = append(args, "--bootstrap")
		} else {
			args = append(args, "--join", raft["node-0"])
		}
		return startServer(t, args...)
	}
	nodes := map[string]*process{}
	for _, name := range names {
		nodes[name] = start(name)
	}
	key := adminKey(t, filepath.Join(base, "node-0"))
	ask := func(name string) *client.Client { return newClient(t, nodes[name].endpoint, key) }

	status := awaitVoters(t, ctx, ask("node-1"), 3)
	if status.Mode != "cluster" || len(status.LeaderAddr) == 0 {
		t.Errorf("%+v", status)
	}
	leader := status.LeaderID
	survivor := names[0]
	if survivor == leader {
		survivor = names[1]
	}
	nodes[leader].Kill(t)
	c := ask(survivor)
	eventually(t, ctx, "a write without the first leader", func() bool {
		_, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
		return err == nil
	})
	nodes[leader] = start(leader)
	back := ask(leader)
	eventually(t, ctx, "the first leader to have caught up", func() bool {
		queue, err := back.Queue(ctx, "q", client.Read{})
		return err == nil && queue.Pending > 0
	})
	awaitVoters(t, ctx, back, 3)
}

// awaitVoters waits until a node knows of so many voters and their leader.
func awaitVoters(t *testing.T, ctx context.Context, c *client.Client, n int) (status api.ClusterStatus) {
	t.Helper()
	begun := time.Now()
	eventually(t, ctx, "all nodes to be voters", func() bool {
		var err error
		status, err = c.ClusterStatus(ctx)
		voters := 0
		for _, node := range status.Nodes {
			if node.Voter {
				voters++
			}
		}
		return err == nil && voters == n && status.LeaderID != ""
	})
	t.Logf("%d voters after %v", n, time.Since(begun).Round(time.Millisecond))
	return status
}
