package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// within bounds a test by the longest time of a start.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proctest.StartTimeout)
	t.Cleanup(cancel)
	return ctx
}

// heartbeat is the nodes' --heartbeat here. A hand-over must take less time, also on a busy machine.
const heartbeat = 5 * time.Second

// TestThreePeers forms a cluster of three nodes that know each other's addresses. The same three remain one
// cluster through all the events below.
func TestThreePeers(t *testing.T) {
	t.Parallel()
	c := newTrio(t, "--shards", "2", "--heartbeat", heartbeat.String(), "--election-timeout", heartbeat.String())
	enqueued := &ledger{trio: c, queues: queuesOn("q")}
	enqueue, complete := enqueued.enqueue, enqueued.complete
	id := clusterID(t, c.dir("node-0"))

	t.Run("all are killed at once", func(t *testing.T) {
		enqueue(t, "node-1")
		for _, name := range c.names {
			c.nodes[name].Kill(t)
		}
		c.start(t, c.names...)
		for _, name := range c.names {
			complete(t, name)
			if got := clusterID(t, c.dir(name)); got != id {
				t.Errorf("%s is in cluster %s, it was formed as %s", name, got, id)
			}
		}
		enqueue(t, "node-2")
	})
	t.Run("the commands", func(t *testing.T) { c.commands(t) })
	t.Run("a leader that is asked to stop hands over", func(t *testing.T) {
		leader := c.leader(t)
		gap := c.gapWhile(t, c.others(leader)[0], func() {
			if err := c.nodes[leader].Terminate(t); err != nil {
				t.Errorf("after SIGTERM: %v", err)
			}
		})
		t.Logf("no write was acknowledged for %v at most", gap.Round(time.Millisecond))
		if gap >= heartbeat {
			t.Errorf("no write was acknowledged for %v: nobody handed over leadership", gap)
		}
		dir := c.dir(leader)
		refused(t, []string{"--raft-bind", "off", "--data-dir", dir}, "is a member of a cluster with node-", "--raft-bind")
		refused(t, []string{"--raft-bind", "127.0.0.1:0", "--data-dir", dir, "--node-id", "other"}, `belongs to node "`+leader+`"`)
		refused(t, []string{"--raft-bind", "127.0.0.1:0", "--data-dir", dir, "--shards", "3"}, "2 shards, not 3")
		refused(t, []string{"--raft-bind", "127.0.0.1:0", "--data-dir", dir, "--raft-store", "bolt"}, `"wal", not "bolt"`)
		c.start(t, leader)
	})
	t.Run("a node has lost its disk", func(t *testing.T) {
		const lost = "node-2"
		c.nodes[lost].Kill(t)
		if err := os.RemoveAll(c.dir(lost)); err != nil {
			t.Fatal(err)
		}
		enqueue(t, "node-0")
		c.launch(t, []string{lost}, "--join", c.raft["node-0"]+","+c.raft["node-1"])
		complete(t, lost)
		awaitVoters(t, within(t), c.client(t, lost), 3)
		if got := clusterID(t, c.dir(lost)); got != id {
			t.Errorf("it is in cluster %s, not in %s", got, id)
		}
		// The node's vote counts again: writes go on although another node is down.
		c.nodes["node-1"].Kill(t)
		enqueue(t, lost)
		c.start(t, "node-1")
		complete(t, "node-1")
	})
	t.Run("a node is removed", func(t *testing.T) {
		if got := c.do(t, "node-0", "cluster", "remove", "node-2"); got != "removed\n" {
			t.Errorf("%q", got)
		}
		awaitVoters(t, within(t), c.client(t, "node-0"), 2)
		if err := c.nodes["node-2"].Terminate(t); err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
		refused(t, append(c.args("node-2"), "--peers", c.peers()), "was removed from its cluster", c.dir("node-2"))
		refused(t, []string{"--raft-bind", "off", "--data-dir", c.dir("node-2")}, "was removed from its cluster")
		enqueue(t, "node-1")
	})
}

// ledger counts the enqueued jobs, the same number in each queue.
type ledger struct {
	*trio
	queues []string
	jobs   int64
}

// enqueue makes a node accept another job for each queue, once.
func (l *ledger) enqueue(t *testing.T, name string) {
	t.Helper()
	ctx, to := within(t), l.client(t, name)
	for _, queue := range l.queues {
		once := client.WithIdempotencyKey(ctx, fmt.Sprint(queue, l.jobs))
		eventually(t, ctx, "a write to "+queue+" by "+name, func() bool {
			_, err := to.Enqueue(once, api.EnqueueRequest{Queue: queue})
			return err == nil
		})
	}
	l.jobs++
}

// complete waits until a node has all jobs, and fails if it has more.
func (l *ledger) complete(t *testing.T, name string) {
	t.Helper()
	ctx, to := within(t), l.client(t, name)
	for _, queue := range l.queues {
		eventually(t, ctx, "all jobs of "+queue+" at "+name, func() bool {
			got, err := to.Queue(ctx, queue, client.Read{Strong: true})
			if err == nil && got.Pending > l.jobs {
				t.Fatalf("%s has %d jobs in %s, %d were enqueued", name, got.Pending, queue, l.jobs)
			}
			return err == nil && got.Pending == l.jobs
		})
	}
}

// commands runs the cluster commands as a user would.
func (c *trio) commands(t *testing.T) {
	if got := c.do(t, "node-1", "cluster", "transfer", "node-1"); got != "transferred\n" {
		t.Errorf("transfer: %q", got)
	}
	var status api.ClusterStatus
	eventually(t, within(t), "the leadership to be known", func() bool {
		if err := json.Unmarshal([]byte(c.do(t, "node-0", "cluster", "status", "--output", "json")), &status); err != nil {
			t.Fatal(err)
		}
		return status.LeaderID == "node-1" && status.ShardStatus[1].LeaderID == "node-1"
	})
	if status.Mode != "cluster" || status.Shards != 2 || status.RaftStore != "wal" {
		t.Errorf("mode %q, %d shards, raft store %q", status.Mode, status.Shards, status.RaftStore)
	}
	if len(status.Nodes) != 3 {
		t.Errorf("nodes %+v, want three", status.Nodes)
	}
	table := c.do(t, "node-0", "cluster", "status")
	for _, says := range []string{"NODE ", "LEADER", c.raft["node-2"], c.nodes["node-2"].endpoint} {
		if !strings.Contains(table, says) {
			t.Errorf("the table does not say %q:\n%s", says, table)
		}
	}
	for _, what := range []string{"snapshot", "verify", "rebuild-view"} {
		if got := c.do(t, "node-2", "admin", what); !strings.HasSuffix(got, "ok\n") {
			t.Errorf("admin %s: %q", what, got)
		}
	}
	a := corvo(t, []string{"CORVO_ENDPOINT=" + c.nodes["node-0"].endpoint, "CORVO_API_KEY=" + c.key}, "cluster", "remove", "node-9")
	if a.code != 1 || !strings.HasPrefix(a.stderr, "corvo: NOT_FOUND: ") || a.stdout != "" {
		t.Errorf("%+v", a)
	}
}

// gapWhile returns the longest time between two acknowledged writes to a node while happens runs.
func (c *trio) gapWhile(t *testing.T, name string, happens func()) (longest time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	to := c.client(t, name)
	queues := queuesOn("gap")
	written := make(chan time.Duration)
	begun := make(chan struct{})
	go func() {
		last, most, n := time.Now(), time.Duration(0), 0
		for ctx.Err() == nil {
			if _, err := to.Enqueue(ctx, api.EnqueueRequest{Queue: queues[n%2]}); err != nil {
				continue
			}
			now := time.Now()
			if n++; n == 2 {
				close(begun)
			}
			if n > 1 { // the first one must connect
				most = max(most, now.Sub(last))
			}
			last = now
		}
		written <- max(most, time.Since(last))
	}()
	<-begun
	happens()
	stop()
	return <-written
}
