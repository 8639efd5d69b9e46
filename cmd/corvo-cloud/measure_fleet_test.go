package main

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/corvo/corvo/cmd/internal/chaos"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

var fleetRounds = flag.Int("fleet.rounds", 0, "measure a whole cloud with this number of creates and of failovers; 0 = skip")

// TestMeasureFleet measures the figures of docs/benchmarks.md on replicated namespaces: the time from a create to the
// first acknowledged job, the time without an acknowledged write after the host of the leader is killed, and a
// move of 100,000 jobs under load. All processes run on this machine.
func TestMeasureFleet(t *testing.T) {
	if *fleetRounds == 0 {
		t.Skip("a measurement: set -fleet.rounds")
	}
	if err := chaos.Available(); err != nil {
		t.Skip(err)
	}
	f := chaos.StartFleet(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"))
	report := func(what string, measure func(round int) time.Duration) {
		all := make([]time.Duration, *fleetRounds)
		for i := range all {
			all[i] = measure(i)
		}
		slices.Sort(all)
		t.Logf("%s: p50 %v, most %v, all %v", what, all[len(all)/2], all[len(all)-1], all)
	}
	report("create to the first acknowledged job, 1 replica", func(i int) time.Duration { return f.CreateTime(t, i, 1) })
	report("create to the first acknowledged job, 3 replicas", func(i int) time.Duration { return f.CreateTime(t, i, 3) })
	report("kill of the leader's host to the next acknowledged write", func(int) time.Duration { return f.FailoverGap(t) })
	took, gap, lost := f.Move(t, 100_000)
	t.Logf("move of 100,000 jobs to another host under load: %v, longest time without an acknowledged enqueue %v, %d enqueues without a known outcome", took, gap, lost)
}
