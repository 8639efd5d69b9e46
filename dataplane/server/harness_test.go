package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// The words of these tests: A node is a server in this process behind a listener, with a host and one namespace.
// startNode opens a node whose namespace has one shard and an admin's key, startShards one without keys (as with
// --dev) and with several shards. A peer is one of three nodes of a cluster, and a tenant one of two namespaces on a
// host of the cloud, which share a server. send makes a request over the network with any key, and ask makes it
// without the network; do, ok and answers send it as the admin, check the status and decode the body. An answer is
// the whole response, and a problem is the body of an error. A figure is a value of a scrape, a follower reads an
// event stream, and a parked request is a fetch that waits in the server. The tables scoped and shapes have a row for
// each route, so that a route without these tests fails one; the file of a noun adds the noun's rows in init. Tests of
// unexported functions are in package server, in files that end in _internal_test.go, and export_test.go has the few
// internals that the other tests read.

// node is a server in this process with a listener.
type node struct {
	t      testing.TB
	server *server.Server
	cell   *cell.Cell
	url    string
	dir    string // the host's data directory
	admin  string // the text of a key with all rights; "" with --dev
	stop   func() // may be called before the test ends
}

// startNode opens a node on an empty store. change may alter its configuration.
func startNode(t testing.TB, change func(*server.Config)) *node {
	t.Helper()
	return startNodeOn(t, host.Config{}, change)
}

// startNodeOn starts a node with a host configuration.
func startNodeOn(t testing.TB, of host.Config, change func(*server.Config)) *node {
	t.Helper()
	return startNodeIn(t, t.TempDir(), of, change)
}

// startNodeIn starts a node with a host configuration and a data directory.
func startNodeIn(t testing.TB, dir string, of host.Config, change func(*server.Config)) *node {
	t.Helper()
	of.DataDir = dir
	return serveNode(t, server.OpenForTest(t, of, host.Spec{}, change))
}

// startShards opens a node without keys whose namespace has the given number of shards.
func startShards(t testing.TB, shards int, change func(*server.Config)) *node {
	t.Helper()
	return serveNode(t, server.OpenForTest(t, host.Config{}, host.Spec{Shards: shards}, func(c *server.Config) {
		c.Dev, c.EventHeartbeat = true, 0
		if change != nil {
			change(c)
		}
	}))
}

// serveNode puts a listener in front of a server.
func serveNode(t testing.TB, o *server.Opened) *node {
	t.Helper()
	n := &node{t: t, server: o.Server, cell: o.Cell, dir: o.Dir}
	if !o.Server.Config().Dev {
		n.admin = n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}})
	}
	front := httptest.NewServer(o.Server)
	closeServer := sync.OnceFunc(func() { o.Server.Drain(); front.Close(); o.Server.Close(context.Background()) })
	t.Cleanup(closeServer)
	n.url, n.stop = front.URL, func() { closeServer(); o.Close() }
	return n
}

// add opens a namespace and waits until it is ready.
func add(ctx context.Context, h *host.Host, ns tenancy.NamespaceID) error {
	return errors.Join(h.Add(ctx, ns, host.Spec{}), h.Ready(ctx, ns))
}

// home returns the cell of a namespace's first shard.
func home(h *host.Host, ns tenancy.NamespaceID) (*cell.Cell, error) {
	cells, err := h.Cells(ns)
	if err != nil {
		return nil, err
	}
	return cells[0], nil
}

// inFlight returns the number of running requests.
func (n *node) inFlight() int {
	n.t.Helper()
	w := httptest.NewRecorder()
	n.server.Config().Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	for line := range strings.Lines(w.Body.String()) {
		if text, ok := strings.CutPrefix(line, telemetry.HTTPInFlight.Name+" "); ok {
			count, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				n.t.Fatal(err)
			}
			return count
		}
	}
	n.t.Fatalf("no metric %s", telemetry.HTTPInFlight.Name)
	return 0
}

// parked waits until the given number of requests, all polls, are running.
func (n *node) parked(count int) {
	n.t.Helper()
	eventually(n.t, "the polls wait", func() bool { return n.inFlight() == count })
}

// waitsAtMost calls do while the server waits at most so long for a write's effect. No other request may run,
// because a short wait would refuse it on a busy machine.
func (n *node) waitsAtMost(wait time.Duration, do func()) {
	c := n.server.Config()
	was := c.ReadWait
	c.ReadWait = wait
	do()
	c.ReadWait = was
}

// shardCounts are the numbers of shards with which each test runs whose outcome must not depend on that
// number.
var shardCounts = []int{1, 2, 4}

// onShard returns the i-th queue name of a shard.
func onShard(shard, shards, i int) string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("q%d", n)
		if router.ShardOf(job.SlotOf(name), shards) != shard {
			continue
		}
		if i == 0 {
			return name
		}
		i--
	}
}

// queueOn returns a queue of every shard.
func queueOn(shards int) (queues []string) {
	for shard := range shards {
		queues = append(queues, onShard(shard, shards, 0))
	}
	return queues
}

// shards returns the shards of the node's namespace.
func (n *node) shards() router.Shards {
	n.t.Helper()
	s, err := router.Open(n.server.Config().Host, tenancy.Default)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// figures returns the values of a scrape, by series.
func (n *node) figures() map[string]float64 {
	n.t.Helper()
	a := n.send("GET", "/api/v1/metrics", n.admin, "")
	if a.status != 200 {
		n.t.Fatalf("metrics: %d %s", a.status, a.body)
	}
	all := make(map[string]float64)
	for line := range strings.Lines(string(a.body)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(series, "corvo_") {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			n.t.Fatalf("%s: %v", line, err)
		}
		all[series] = value
	}
	return all
}
