package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// handedOut holds the addresses that freePort has returned, because their nodes may not listen yet.
var handedOut sync.Map

// freePort returns a free port of loopback. The nodes cannot choose their ports, because each learns the
// others' before it starts. The port is below those that systems give to other listeners and to connections, so
// that none of these takes it before its node starts, or while its node is down.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000))
		if _, taken := handedOut.LoadOrStore(address, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
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
