package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
)

// The ports are the same on every node, because each node has its own address.
const (
	httpPort = 8080
	raftPort = 9400
)

// awaitTimeout bounds every wait for a condition that must become true. A test reaches it
// only if something is broken.
const awaitTimeout = 2 * time.Minute

// Cluster is a cluster of bare nodes on a Network.
type Cluster struct {
	processes
	Key string // an admin key

	token string // file of the join token
	flags []string
}

// Start starts n nodes as one cluster, with additional flags for each, and waits until
// all of them have a vote.
func Start(t testing.TB, binary string, n int, flags ...string) *Cluster {
	t.Helper()
	dir := t.TempDir()
	c := &Cluster{processes: newProcesses(t, binary, dir, n), flags: flags, token: filepath.Join(dir, "token")}
	if err := os.WriteFile(c.token, []byte(strings.Repeat("chaos", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		c.StartNode(t, i)
		if i == 0 {
			c.readKey(t)
		}
		c.nodes[i].client = newClient(t, c.URL(i), c.Key, newTransport())
		c.AwaitReady(t, i)
	}
	c.AwaitVoters(t, n)
	return c
}

func (c *Cluster) readKey(t testing.TB) {
	t.Helper()
	c.await(t, "admin key", func(context.Context) bool {
		key, err := os.ReadFile(filepath.Join(c.nodes[0].dir, "admin.key"))
		c.Key = strings.TrimSpace(string(key))
		return err == nil
	})
}

// StartNode starts a node that is down. It does not wait until the node serves, because
// that takes other nodes if the node alone is not a majority.
func (c *Cluster) StartNode(t testing.TB, i int) {
	t.Helper()
	args := []string{
		"server", "--node-id", fmt.Sprintf("node-%d", i), "--data-dir", c.nodes[i].dir,
		"--bind", fmt.Sprintf("%s:%d", c.Net.Addr(i), httpPort),
		"--raft-bind", fmt.Sprintf("%s:%d", c.Net.Addr(i), raftPort),
		"--join-token-file", c.token,
	}
	if i > 0 {
		args = append(args, "--join", fmt.Sprintf("%s:%d", c.Net.Addr(0), raftPort))
	}
	c.spawn(t, i, append(args, c.flags...)...)
}

// Size returns the number of nodes.
func (c *Cluster) Size() int { return len(c.nodes) }

// others returns all nodes but one.
func (c *Cluster) others(than int) []int {
	var all []int
	for i := range c.nodes {
		if i != than {
			all = append(all, i)
		}
	}
	return all
}

// URL returns the URL at which a node serves clients.
func (c *Cluster) URL(i int) string { return fmt.Sprintf("http://%s:%d", c.Net.Addr(i), httpPort) }

// Status returns a node's view of the cluster.
func (c *Cluster) Status(ctx context.Context, i int) (api.ClusterStatus, error) {
	return c.Client(i).ClusterStatus(ctx)
}

// Leader waits until a node claims to lead and a majority agrees, and returns that node.
func (c *Cluster) Leader(t testing.TB) int {
	t.Helper()
	leader := -1
	c.await(t, "a leader that a majority agrees on", func(ctx context.Context) bool {
		votes := map[string]int{}
		for i := range c.nodes {
			if !c.Up(i) {
				continue
			}
			if s, err := c.Status(ctx, i); err == nil {
				votes[s.LeaderID]++
			}
		}
		for id, n := range votes {
			if id != "" && n > len(c.nodes)/2 {
				if _, err := fmt.Sscanf(id, "node-%d", &leader); err == nil {
					return true
				}
			}
		}
		return false
	})
	return leader
}

// AwaitReady waits until a node serves.
func (c *Cluster) AwaitReady(t testing.TB, i int) {
	t.Helper()
	c.await(t, fmt.Sprintf("readiness of node %d", i), func(ctx context.Context) bool {
		_, err := c.Client(i).Ready(ctx)
		return err == nil
	})
}

// AwaitVoters waits until a node that is up reports n voters and contact with all of them.
func (c *Cluster) AwaitVoters(t testing.TB, n int) {
	t.Helper()
	c.await(t, fmt.Sprintf("%d voters", n), func(ctx context.Context) bool {
		for i := range c.nodes {
			if !c.Up(i) {
				continue
			}
			s, err := c.Status(ctx, i)
			if err != nil {
				continue
			}
			voters := 0
			for _, m := range s.Nodes {
				if m.Voter {
					voters++
				}
			}
			if voters == n {
				return true
			}
		}
		return false
	})
}

// await polls a condition of the processes, because they send no notification.
func (c *Cluster) await(t testing.TB, what string, holds func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
	defer cancel()
	if poll(ctx, holds) {
		return
	}
	for i := range c.nodes {
		if c.nodes[i].client == nil {
			continue
		}
		s, err := c.Status(context.Background(), i)
		text, _ := json.Marshal(s.Nodes)
		t.Logf("node %d: up %v, state %s, leader %q, term %d, nodes %s, error %v\n%s", i, c.Up(i), s.State, s.LeaderID, s.Term, text, err, tail(c.Log(i)))
	}
	t.Fatalf("no %s after %v", what, awaitTimeout)
}

// FailoverGap kills the leader and returns the time until another node acknowledged a write
// to a client that tries all of them. Then it starts the killed node again.
func (c *Cluster) FailoverGap(t testing.TB) time.Duration {
	t.Helper()
	leader := c.Leader(t)
	killed := time.Now()
	c.Kill(t, leader)
	var gap time.Duration
	c.await(t, "acknowledged write after a failover", func(ctx context.Context) bool {
		for i := range c.nodes {
			if i == leader {
				continue
			}
			_, err := c.Client(i).Enqueue(ctx, api.EnqueueRequest{Queue: queue})
			if err == nil {
				gap = time.Since(killed)
				return true
			}
		}
		return false
	})
	c.StartNode(t, leader)
	c.AwaitVoters(t, len(c.nodes))
	return gap.Round(time.Millisecond)
}
