package main

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// freePort returns a free port of loopback. The nodes cannot choose their ports, because each learns the
// others' before it starts.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// awaitVoters waits until a node reports n voters and their leader.
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
