package main

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/corvo/corvo/cmd/internal/chaos"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestChaos kills, freezes and isolates the processes of a whole cloud while tenants of a namespace with three
// replicas work through two gateways. No acknowledged job is lost, no job is leased to two workers at once, every
// job's history fits one job, the ledger counts each ack once, and no other namespace sees a job.
//
// CORVO_CHAOS sets the number of faults; the default is a short list. CORVO_CHAOS_SEED repeats the faults of a run,
// but not their effects, because these depend on the machine.
func TestChaos(t *testing.T) {
	t.Parallel()
	if err := chaos.Available(); err != nil {
		t.Skip(err)
	}
	f := chaos.StartFleet(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"))
	_, stranger := f.NewNamespace(t, "stranger", 1)
	l := chaos.StartLoad(t, f, 4)
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("CORVO_CHAOS_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("the faults are drawn from CORVO_CHAOS_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	faults := chaos.Named(t, chaos.FleetFaults, "kill the leader's host", "drain a host", "kill a gateway", "kill a process of the control plane")
	if n, err := strconv.Atoi(os.Getenv("CORVO_CHAOS")); err == nil {
		faults = chaos.Draw(chaos.FleetFaults, n, rng)
	}
	chaos.Inflict(t, f, l, rng, faults...)
	l.Finish(t)
	f.AwaitUsage(t, l.Acked())
	f.CheckInvisible(t, l, stranger)
}
