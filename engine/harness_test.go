package engine_test

import (
	"context"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
)

// The tests of this package use these words. A node is a running group with its machine, in a directory that
// outlives both. The machine counts in memory and writes its counters to a file only in Flush, so that a
// crash loses the changes since the last Flush and a replay of the log must restore them. A cluster has
// members. Each member has a node, a transport, an address and a host with a clock of its own, and the
// members talk over TCP or over a network in memory. shut and stop close in good order; crash and kill lose
// everything that was not flushed. virtual runs a cluster in a synctest bubble, and within bounds a call in
// virtual time. soon is the deadline of everything that must happen, and until polls a condition that has no
// event. A chaos run records a history of accesses by several clients while harm injects faults.

// node is a group with its machine, in a directory that outlives both.
type node struct {
	*engine.Group
	machine *machine
	config  engine.Config
}

// openNode opens the group in dir and waits until it leads. Segments are small, so that the writes of a test
// fill several.
func openNode(t testing.TB, dir string, change ...func(*engine.Config)) *node {
	t.Helper()
	n, err := tryOpenNode(t, dir, change...)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func tryOpenNode(t testing.TB, dir string, change ...func(*engine.Config)) (*node, error) {
	t.Helper()
	m := openMachine(t, dir)
	c := engine.Config{
		Dir: dir, Group: "test/0", Machine: m, StartTerm: startTerm, Logger: quiet(),
		Tuning: engine.Tuning{Logs: &raftlog.Factory{SegmentBytes: raftlog.MinSegmentBytes, Logger: replica.NewLogger(quiet())}},
	}
	for _, f := range change {
		f(&c)
	}
	g, err := engine.Open(c)
	if err != nil {
		return nil, err
	}
	n := &node{Group: g, machine: m, config: c}
	t.Cleanup(func() { _ = n.Close(context.Background()) }) // Close is idempotent; tests that need the result have checked it
	return n, nil
}

// shut closes the node in good order.
func (n *node) shut(t testing.TB) {
	t.Helper()
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// crash stops the node so that the machine loses everything it had not flushed.
func (n *node) crash(t testing.TB) {
	t.Helper()
	n.machine.crash()
	err := n.Close(context.Background())
	// A due snapshot may have failed on the crash before Close did.
	if err == nil && n.Err() == nil {
		t.Fatal("close of a crashed machine succeeded")
	}
}

func (n *node) add(t testing.TB, key string) (int64, engine.Position) {
	t.Helper()
	value, at, err := engine.Propose[int64](t.Context(), n.Group, add(key))
	if err != nil {
		t.Fatal(err)
	}
	return value, at
}

func wantCode(t testing.TB, err error, code api.Code) {
	t.Helper()
	e, ok := err.(*api.Error) //nolint:errorlint // the engine answers nothing else
	if !ok || e.Code != code {
		t.Fatalf("error is %v (%T), want code %s", err, err, code)
	}
}
