//go:build unix

package perf_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/corvo/corvo/engine"
)

// servingCallers is the load beside which snapshots are measured: a node that is busy and not yet saturated.
const servingCallers = 32

// TestMeasureSnapshots measures three nodes with many jobs that go on serving while one of them, whose disk
// is empty, receives a snapshot and builds its view, for "Snapshots" in docs/benchmarks.md:
//
//	go test ./dataplane/perf -run TestMeasureSnapshots -v -timeout 60m -measure.rounds=3
//
// With a million jobs it takes about two minutes and one more for each round.
func TestMeasureSnapshots(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	ns := openNodes(t, 3, engine.Tuning{})
	begun := time.Now()
	fillMixed(t, ns.leader().Cells()[0], *heldJobs)
	for _, m := range ns.all {
		current(t, m.Cells()[0])
	}
	t.Logf("%d jobs made in %v", *heldJobs, time.Since(begun).Round(time.Second))
	var before, without, sending, viewing []figures
	var came, shown []time.Duration
	for range *rounds {
		r := ns.rejoin(t)
		before, without = append(before, r.before), append(without, r.without)
		sending, viewing = append(sending, r.sending), append(viewing, r.viewing)
		came, shown = append(came, r.came), append(shown, r.shown)
	}
	row := func(what string, all []figures) []string {
		f := middle(all)
		return []string{what, fmt.Sprintf("%.0f", f.rate), f.latency(), ratio(all, before)}
	}
	seconds := func(all []time.Duration) string {
		return fmt.Sprintf("%.1f s", median(all, time.Duration.Seconds))
	}
	printTable(fmt.Sprintf("A snapshot to an empty follower while %d callers work, %d jobs (%s MiB of state), medians of %d: in after %s, its view current after %s",
		servingCallers, *heldJobs, mebibytes(sizeOf(ns.leader().shardDir(), "state")), *rounds, seconds(came), seconds(shown)),
		[]string{"while", "jobs/s", "p50 / p99", "to three nodes"},
		row("three nodes, nothing else", before), row("two nodes, the third is away", without),
		row("the snapshot is sent and taken over", sending), row("the third's view is built", viewing))
}

// rejoined holds the figures of one return of an empty follower.
type rejoined struct {
	before, without, sending, viewing figures
	came, shown                       time.Duration
}

// rejoin makes a follower lose its disk and return, under load.
func (ns *nodes) rejoin(t *testing.T) (r rejoined) {
	t.Helper()
	lost, leader := ns.follower(), ns.leader().Cells()[0]
	l := startLoad(servingCallers, func(caller int) error { return lifecycle(leader, caller) })
	time.Sleep(*lasting / 5)
	start, term := time.Now(), termOf(t, leader.Engine())
	time.Sleep(*lasting)
	gone := time.Now()
	ns.shut(lost)
	lost.wipe(t)
	// The name is free once the other nodes consider its holder dead.
	time.Sleep(max(*lasting, 4*time.Second))
	back := time.Now()
	ns.open(lost)
	in := time.Now()
	current(t, lost.Cells()[0])
	shown := time.Now()
	l.stop(t)
	ns.await("all nodes vote", func() bool { return ns.voters() == len(ns.all) })
	if now := termOf(t, leader.Engine()); now != term {
		t.Logf("leadership has changed meanwhile: term %d, then %d", term, now)
	}
	r.before, r.without = l.between(t, start, gone), l.between(t, gone, back)
	r.sending, r.viewing = l.between(t, back, in), l.between(t, in, shown)
	r.came, r.shown = in.Sub(back), shown.Sub(back)
	return r
}

func termOf(t testing.TB, g *engine.Group) uint64 {
	t.Helper()
	s, err := g.Status()
	if err != nil {
		t.Fatal(err)
	}
	return s.Term
}

// TestMeasureOwnSnapshots measures one node with many jobs that takes its own snapshots never, by default,
// and all the time, also for "Snapshots" in docs/benchmarks.md:
//
//	go test ./dataplane/perf -run TestMeasureOwnSnapshots -v -timeout 60m -measure.rounds=5
//
// With a million jobs it takes about a minute and fifteen seconds for each round.
func TestMeasureOwnSnapshots(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	base := t.TempDir()
	ns := openNodesIn(t, base, 1, engine.Tuning{})
	fillMixed(t, ns.all[0].Cells()[0], *heldJobs)
	ns.shut(ns.all[0])
	cases := []struct {
		name  string
		bytes int64
	}{{"never", math.MaxInt64 / 2}, {"64 MiB, the default", 0}, {"1 MiB", 1 << 20}}
	got, taken := make([][]figures, len(cases)), make([][]float64, len(cases))
	for range *rounds {
		for i, c := range cases {
			ns.tuning.SnapshotBytes, ns.tuning.TrailingBytes = c.bytes, min(c.bytes, 8<<20)
			ns.open(ns.all[0])
			cell := ns.all[0].Cells()[0]
			seen := watch(t, cell.Engine())
			begun := time.Now()
			got[i] = append(got[i], measure(t, 512, func(caller int) error { return lifecycle(cell, caller) }))
			taken[i] = append(taken[i], float64(seen())/time.Since(begun).Seconds())
			ns.shut(ns.all[0])
		}
	}
	rows := [][]string{{"a snapshot every", "snapshots/s", "jobs/s", "p50 / p99", "to never"}}
	for i, c := range cases {
		f := middle(got[i])
		rows = append(rows, []string{c.name, fmt.Sprintf("%.1f", median(taken[i], func(n float64) float64 { return n })),
			fmt.Sprintf("%.0f", f.rate), f.latency(), ratio(got[i], got[0])})
	}
	printTable(fmt.Sprintf("Snapshots of its own while 512 callers work, %d jobs, medians of %d rounds of %v", *heldJobs, *rounds, *lasting), rows...)
}

// watch counts the snapshots that a group takes from now until seen is called.
func watch(t testing.TB, g *engine.Group) (seen func() int) {
	t.Helper()
	end, result := make(chan struct{}), make(chan int)
	last := snapshotOf(t, g)
	go func() {
		for n := 0; ; {
			select {
			case <-end:
				result <- n
				return
			case <-time.After(2 * time.Millisecond):
				s, err := g.Status()
				if err != nil {
					t.Error(err)
				} else if s.Snapshot != last {
					n, last = n+1, s.Snapshot
				}
			}
		}
	}()
	return func() int { close(end); return <-result }
}
