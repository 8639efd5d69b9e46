package main

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/corvo/corvo/cmd/internal/chaos"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// chaosClients is the number of producers, and of workers, that the cluster serves during faults.
const chaosClients = 4

// startCluster starts three nodes in network namespaces, or skips the test.
func startCluster(t *testing.T, flags ...string) *chaos.Cluster {
	t.Helper()
	if err := chaos.Available(); err != nil {
		t.Skip(err)
	}
	return chaos.Start(t, proctest.Build(t, "../..", "./cmd/corvo"), 3, append(flags, "--snapshot-threshold", "1048576")...)
}

// TestChaos kills, partitions and freezes three real nodes under load. The promises to clients must hold: no
// acknowledged job is lost, no job is leased to two workers at once, no acknowledged ack is undone, and every
// job's history at all nodes together fits one job.
//
// CORVO_CHAOS sets the number of faults; the default is a short list. With CORVO_CHAOS_CLOCK the test also sets the machine's own
// clock: use it only on a machine that does nothing else.
func TestChaos(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	l := chaos.StartLoad(t, c, chaosClients)
	rng := chaos.Rand(t)
	faults := chaos.Named(t, chaos.Faults, "kill the leader", "isolate the leader", "kill a node", "kill the leader")
	if n, err := strconv.Atoi(os.Getenv("CORVO_CHAOS")); err == nil {
		all := slices.Clone(chaos.Faults)
		if os.Getenv("CORVO_CHAOS_CLOCK") != "" {
			all = append(all, chaos.ClockJump)
		}
		faults = chaos.Draw(all, n, rng)
	}
	chaos.Inflict(t, c, l, rng, faults...)
	l.Finish(t)
}

// TestFailover measures how long no client can write after the leader is killed: CORVO_FAILOVERS=20 for the
// figures of docs/benchmarks.md.
func TestFailover(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("CORVO_FAILOVERS"))
	if err != nil {
		t.Skip("a measurement: set CORVO_FAILOVERS to the number of kills")
	}
	c := startCluster(t)
	gaps := make([]time.Duration, n)
	for i := range gaps {
		gaps[i] = c.FailoverGap(t)
	}
	slices.Sort(gaps)
	t.Logf("%d kills of the leader; time to the next acknowledged write: p50 %v, most %v, all %v", n, gaps[n/2], gaps[n-1], gaps)
}
