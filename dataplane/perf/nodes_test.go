//go:build unix

package perf_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/tenancy"
)

// slow bounds a wait that is long with many jobs; only failures reach it.
const slow = 10 * time.Minute

// nodes are the bare nodes on which the tests named TestMeasure work, in this process: one alone, or a
// cluster over TCP and TLS on the loopback. Each has a directory of its own, and all sync to disk.
type nodes struct {
	t      testing.TB
	tuning engine.Tuning
	all    []*member
}

type member struct {
	*dataplane.Node // nil while it is closed
	name            string
	dir             string
	address         string
}

// openNodes opens new nodes and waits until all of a cluster vote.
func openNodes(t testing.TB, n int, tuning engine.Tuning) *nodes {
	t.Helper()
	return openNodesIn(t, t.TempDir(), n, tuning)
}

// openNodesIn does the same in a directory that may hold data.
func openNodesIn(t testing.TB, base string, n int, tuning engine.Tuning) *nodes {
	t.Helper()
	ns := &nodes{t: t, tuning: tuning}
	t.Cleanup(ns.close)
	for i := range n {
		name := string(rune('a' + i))
		ns.all = append(ns.all, &member{name: name, dir: filepath.Join(base, name)})
	}
	for _, m := range ns.all {
		ns.open(m)
	}
	ns.await("all nodes vote", func() bool { return ns.voters() == n })
	return ns
}

// open opens a node under its former address.
func (ns *nodes) open(m *member) {
	ns.t.Helper()
	cfg := dataplane.Config{DataDir: m.dir, NodeID: m.name, Dev: true, Engine: ns.tuning, Logger: quiet()}
	if len(ns.all) > 1 {
		at := m.address
		if at == "" {
			at = "127.0.0.1:0"
		}
		listener, err := net.Listen("tcp", at)
		if err != nil {
			ns.t.Fatal(err)
		}
		m.address = listener.Addr().String()
		cfg.Cluster = &cluster.Config{Listener: listener, Token: strings.Repeat("measure!", 8)}
		if cfg.Cluster.Join = ns.running(); len(cfg.Cluster.Join) == 0 {
			cfg.Cluster.Bootstrap = true
		}
		cfg.Engine.Autopilot = &engine.Autopilot{StableAfter: 100 * time.Millisecond}
	}
	ctx, cancel := context.WithTimeout(context.Background(), slow)
	defer cancel()
	var err error
	if m.Node, err = dataplane.Open(ctx, cfg); err != nil {
		ns.t.Fatal(err)
	}
}

// running returns the addresses of the open nodes.
func (ns *nodes) running() (at []string) {
	for _, m := range ns.all {
		if m.Node != nil {
			at = append(at, m.address)
		}
	}
	return at
}

func (ns *nodes) shut(m *member) {
	ns.t.Helper()
	err := m.Close(context.Background())
	if m.Node = nil; err != nil {
		ns.t.Fatal(err)
	}
}

func (ns *nodes) close() {
	for _, m := range ns.all {
		if m.Node != nil {
			if err := m.Close(context.Background()); err != nil {
				ns.t.Error(err)
			}
		}
	}
}

// leader returns the node that leads.
func (ns *nodes) leader() (leader *member) {
	ns.t.Helper()
	ns.await("one node leads", func() bool {
		for _, m := range ns.all {
			if m.Node != nil && m.Cells()[0].Leader() {
				leader = m
			}
		}
		return leader != nil
	})
	return leader
}

// follower returns the last node that does not lead.
func (ns *nodes) follower() (found *member) {
	leader := ns.leader()
	for _, m := range ns.all {
		if m != leader {
			found = m
		}
	}
	return found
}

// voters returns the number of nodes with a vote, as the leader knows it.
func (ns *nodes) voters() (n int) {
	for _, m := range ns.leader().Cells()[0].Engine().Members() {
		if m.Voter {
			n++
		}
	}
	return n
}

func (ns *nodes) await(what string, is func() bool) {
	ns.t.Helper()
	for deadline := time.Now().Add(slow); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			ns.t.Fatalf("in vain: %s", what)
		}
	}
}

// shardDir returns the directory of a node's only shard.
func (m *member) shardDir() string {
	return filepath.Join(m.dir, "ns", string(tenancy.Default), "0")
}

// wipe deletes the data of a closed node.
func (m *member) wipe(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
}

// current waits until a cell's view shows everything that the cell has applied.
func current(t testing.TB, c *cell.Cell) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), slow)
	defer cancel()
	if err := c.View().Wait(ctx, uint64(c.Applied())); err != nil {
		t.Fatal(err)
	}
}

// fillMixed creates jobs, every second of them completed, and waits until the view has them.
func fillMixed(t testing.TB, c *cell.Cell, jobs int) {
	t.Helper()
	const half = job.MaxEnqueueJobs / 2
	for n := 0; n < jobs; n += 2 * half {
		all := &op.Enqueue{Meta: &op.Meta{}}
		for range half {
			for _, queue := range []string{"waiting", "done"} {
				one := enqueueOp(c.NewID(queue), queue)
				all.Jobs, all.Meta.Ids = append(all.Jobs, one.Jobs...), append(all.Meta.Ids, one.Meta.Ids...)
			}
		}
		if _, _, err := cell.Propose[*op.EnqueueResult](t.Context(), c, all); err != nil {
			t.Fatal(err)
		}
		fetch := fetchOp(c.LeaseSeed(), "done")
		fetch.Count = half
		fetched, _, err := cell.Propose[*op.FetchResult](t.Context(), c, fetch)
		if err == nil && len(fetched.GetJobs()) != half {
			err = fmt.Errorf("fetched %d jobs of %d", len(fetched.GetJobs()), half)
		}
		if err != nil {
			t.Fatal(err)
		}
		ack := &op.Ack{Meta: &op.Meta{}}
		for _, l := range fetched.GetJobs() {
			ack.Items = append(ack.Items, ackOp(l).Items...)
		}
		if _, _, err := cell.Propose[*op.AckResult](t.Context(), c, ack); err != nil {
			t.Fatal(err)
		}
	}
	current(t, c)
}
