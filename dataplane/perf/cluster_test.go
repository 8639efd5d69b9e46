//go:build unix

package perf_test

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine"
)

// subject is a case of TestMeasureCluster. open returns a function that runs one job's enqueue, fetch and
// ack, or commits three entries with the bytes of those ops.
type subject struct {
	name  string
	nodes int
	open  func(t *testing.T, nodes int) func(caller int) error
}

// subjects are measured in this order. The first one with the same number of nodes is the reference.
var subjects = []subject{
	{"bare raft", 1, openBareRaft},
	{"engine, no machine", 1, openBareEngine},
	{"lifecycle", 1, openLifecycle},
	{"bare raft", 3, openBareRaft},
	{"bare raft, its own transport", 3, openNetworkRaft},
	{"engine, no machine", 3, openBareEngine},
	{"lifecycle", 3, openLifecycle},
	{"lifecycle, through a follower", 3, openFollowed},
}

func openBareRaft(t *testing.T, nodes int) func(int) error {
	return committing(t, openRafts(t, ourTransports(t, nodes)))
}

func openNetworkRaft(t *testing.T, nodes int) func(int) error {
	return committing(t, openRafts(t, raftTransports(t, nodes)))
}

func committing(t *testing.T, r *raft.Raft) func(int) error {
	ops := lifecycleBytes(t)
	return func(int) error { return commitBytes(r, ops) }
}

func openBareEngine(t *testing.T, nodes int) func(int) error {
	g, ops := openEngines(t, nodes), lifecycleBytes(t)
	return func(int) error { return proposeBytes(g, ops) }
}

func openLifecycle(t *testing.T, nodes int) func(int) error {
	c := openNodes(t, nodes, engine.Tuning{}).leader().Cells()[0]
	return func(caller int) error { return lifecycle(c, caller) }
}

func openFollowed(t *testing.T, nodes int) func(int) error {
	c := openNodes(t, nodes, engine.Tuning{}).follower().Cells()[0]
	return func(caller int) error { return lifecycle(c, caller) }
}

// TestMeasureCluster compares whole jobs in process with raft alone and with the engine
// alone, on one node and on three that share this machine, for "One node and three" in
// docs/benchmarks.md:
//
//	go test ./dataplane/perf -run TestMeasureCluster -v -timeout 60m -measure.rounds=5
//
// A round takes about two minutes.
func TestMeasureCluster(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	callers := []int{1, 32, 512}
	type of struct{ subject, callers int }
	got := map[of][]figures{}
	for round := range *rounds {
		for i, s := range subjects {
			t.Run(fmt.Sprintf("round=%d/%s/nodes=%d", round+1, s.name, s.nodes), func(t *testing.T) {
				fn := s.open(t, s.nodes)
				for _, n := range callers {
					f := measure(t, n, fn)
					got[of{i, n}] = append(got[of{i, n}], f)
					t.Logf("%d callers: %.0f/s, %s, %v of processor time", n, f.rate, f.latency(), f.cpu)
				}
			})
		}
	}
	first := func(name string, nodes int) int {
		for i, s := range subjects {
			if s.nodes == nodes && (name == "" || s.name == name) {
				return i
			}
		}
		return -1
	}
	rows := [][]string{{"callers", "nodes", "what", "jobs/s", "p50 / p99", "cpu", "to bare raft", "to one node"}}
	for _, n := range callers {
		for i, s := range subjects {
			all := got[of{i, n}]
			if len(all) == 0 {
				continue // -run excludes it
			}
			f := middle(all)
			row := []string{
				fmt.Sprint(n), fmt.Sprint(s.nodes), s.name, fmt.Sprintf("%.0f", f.rate), f.latency(), fmt.Sprintf("%d µs", f.cpu.Microseconds()),
				ratio(all, got[of{first("", s.nodes), n}]), "",
			}
			if alone := first(s.name, 1); s.nodes > 1 && alone >= 0 {
				row[7] = ratio(all, got[of{alone, n}])
			}
			rows = append(rows, row)
		}
	}
	printTable(fmt.Sprintf("In process, medians of %d rounds of %v", *rounds, *lasting), rows...)
}
