package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/corvo/corvo/cmd/internal/chaos"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestChaos kills, freezes and isolates the processes of a whole cloud while tenants of a namespace with three
// replicas work through two gateways. No acknowledged job is lost, no job is leased to two workers at once, every
// job's history fits one job, and the worker of another namespace gets and sees no job. The ledger counts each ack once,
// and each request once, except those that a killed gateway had not delivered.
//
// CORVO_CHAOS sets the number of faults; the default is a short list.
func TestChaos(t *testing.T) {
	t.Parallel()
	if err := chaos.Available(); err != nil {
		t.Skip(err)
	}
	f := chaos.StartFleet(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"))
	l := chaos.StartLoad(t, f, 4)
	f.StartStranger(t, l)
	rng := chaos.Rand(t)
	faults := chaos.Named(t, chaos.FleetFaults, "kill the leader's host", "drain a host", "kill a gateway", "freeze a gateway", "isolate a gateway", "kill a process of the control plane")
	if n, err := strconv.Atoi(os.Getenv("CORVO_CHAOS")); err == nil {
		faults = chaos.Draw(chaos.FleetFaults, n, rng)
	}
	chaos.Inflict(t, f, l, rng, faults...)
	l.Finish(t)
	f.AwaitUsage(t, l)
	f.CheckStranger(t, l)
}
