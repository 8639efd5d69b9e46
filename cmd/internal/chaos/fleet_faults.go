package chaos

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

// someControl, someGateway and someHost return a random process of their kind.
func someControl(rng *rand.Rand) int { return rng.IntN(controls) }
func someGateway(rng *rand.Rand) int { return controls + rng.IntN(gateways) }
func someHost(rng *rand.Rand) int    { return controls + gateways + rng.IntN(hosts) }

// killingOne returns a fault in which a process dies and starts again after tenants have made progress without it.
func killingOne(which func(*rand.Rand) int) func(testing.TB, *Fleet, *Load, *rand.Rand) {
	return func(t testing.TB, f *Fleet, l *Load, rng *rand.Rand) {
		i := which(rng)
		f.Kill(t, i)
		l.AwaitProgress(t, 50)
		f.StartNode(t, i)
		f.awaitMembers(t)
	}
}

// FleetFaults lists all faults of a Fleet by name. Each leaves the namespace a majority of its members, and tenants a
// gateway.
var FleetFaults = []Fault[*Fleet]{
	{"kill a host", killingOne(someHost)},
	{"kill the leader's host", func(t testing.TB, f *Fleet, l *Load, _ *rand.Rand) {
		i := f.Leader(t)
		f.Kill(t, i)
		l.AwaitProgress(t, 50)
		f.StartNode(t, i)
		f.awaitMembers(t)
	}},
	{"kill a gateway", killingOne(someGateway)},
	{"kill a process of the control plane", killingOne(someControl)},
	{"kill the control plane", func(t testing.TB, f *Fleet, l *Load, _ *rand.Rand) {
		for i := range controls {
			f.Kill(t, i)
		}
		l.AwaitProgress(t, 200)
		for i := range controls {
			f.StartNode(t, i)
		}
	}},
	{"isolate a host", func(t testing.TB, f *Fleet, l *Load, rng *rand.Rand) {
		f.Net.Isolate(t, someHost(rng))
		l.AwaitProgress(t, 50)
		hold(t, rng)
		f.Net.Heal(t)
		f.awaitMembers(t)
	}},
	{"freeze a host", func(t testing.TB, f *Fleet, l *Load, rng *rand.Rand) {
		i := someHost(rng)
		f.Freeze(t, i)
		l.AwaitProgress(t, 50)
		hold(t, rng)
		f.Thaw(t, i)
		f.awaitMembers(t)
	}},
	{"restart the hosts one after the other", func(t testing.TB, f *Fleet, l *Load, _ *rand.Rand) {
		for i := controls + gateways; i < len(f.nodes); i++ {
			f.Terminate(t, i)
			l.AwaitProgress(t, 50)
			f.StartNode(t, i)
			f.awaitMembers(t)
		}
	}},
	{"drain a host", func(t testing.TB, f *Fleet, l *Load, rng *rand.Rand) {
		name := nodeName(someHost(rng))
		f.await(t, "drained host", func(ctx context.Context) bool {
			status, err := f.Operator().DrainHost(ctx, name)
			return err == nil && status == api.HostDrained
		})
		f.awaitMembers(t)
		l.AwaitProgress(t, 50)
		do(t, f, "end of the drain", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, f.Operator().UndrainHost(ctx, name)
		})
	}},
	{"one replica and three again", func(t testing.TB, f *Fleet, l *Load, _ *rand.Rand) {
		for _, replicas := range []int{1, 3} {
			do(t, f, "change of the replicas", func(ctx context.Context) (api.Namespace, error) {
				return f.Operator().UpdateNamespace(ctx, f.Namespace, api.UpdateNamespaceRequest{Spec: &api.NewNamespaceSpec{Replicas: &replicas}}, 0)
			})
			f.awaitMembers(t)
			l.AwaitProgress(t, 50)
		}
	}},
}

// awaitMembers waits until all members of the namespace have it open, because the next fault may take one of them
// away.
func (f *Fleet) awaitMembers(t testing.TB) {
	t.Helper()
	f.await(t, "namespace with all members", func(ctx context.Context) bool {
		c, err := f.Operator().Cluster(ctx, f.Namespace)
		if err != nil || c.Status.ObservedGeneration != c.Generation || len(c.Status.Members) != c.Spec.Replicas {
			return false
		}
		for _, m := range c.Status.Members {
			if m.HostState != "serving" || m.State != "open" {
				return false
			}
		}
		return c.Status.Fault == ""
	})
}

// AwaitUsage waits until the ledger has the usage of exactly the given number of acks.
func (f *Fleet) AwaitUsage(t testing.TB, acks int) {
	t.Helper()
	f.await(t, "usage of all acks in the ledger", func(ctx context.Context) bool {
		u, err := f.Operator().NamespaceUsage(ctx, f.Namespace, client.UsageQuery{})
		if err != nil {
			return false
		}
		switch u.Totals.InputTokens.Compare(money.CountOf(int64(acks))) {
		case 1:
			t.Fatalf("the ledger has %v tokens, and %d acks reported one each", u.Totals.InputTokens, acks)
		case 0:
			return true
		}
		return false
	})
}

// CheckInvisible checks that the key of another namespace finds no job of the load.
func (f *Fleet) CheckInvisible(t testing.TB, l *Load, key string) {
	t.Helper()
	other := newClient(t, f.gatewayURL(0), key)
	for _, id := range l.History.with(enqueued) {
		f.await(t, "answer to the other namespace", func(ctx context.Context) bool {
			job, err := other.Job(ctx, id, client.Read{})
			if err == nil {
				t.Fatalf("another namespace sees job %s: %+v", id, job)
			}
			return api.CodeOf(err) == api.NotFound
		})
	}
}
