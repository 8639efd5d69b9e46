package chaos

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
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
		f.awaitBack(t, i)
	}
}

// freezing returns a fault in which a process is stopped by SIGSTOP for a while.
func freezing(which func(*rand.Rand) int) func(testing.TB, *Fleet, *Load, *rand.Rand) {
	return func(t testing.TB, f *Fleet, l *Load, rng *rand.Rand) {
		i := which(rng)
		f.Freeze(t, i)
		l.AwaitProgress(t, 50)
		hold(t, rng)
		f.Thaw(t, i)
		f.awaitBack(t, i)
	}
}

// parting returns a fault in which packets between a process and others are lost for a while, both ways. Tenants reach
// the process throughout.
func parting(which func(*rand.Rand) int, from func(f *Fleet) []int) func(testing.TB, *Fleet, *Load, *rand.Rand) {
	return func(t testing.TB, f *Fleet, l *Load, rng *rand.Rand) {
		i := which(rng)
		for _, other := range from(f) {
			if other != i {
				f.Net.Cut(t, i, other)
				f.Net.Cut(t, other, i)
			}
		}
		l.AwaitProgress(t, 50)
		hold(t, rng)
		f.Net.Heal(t)
		f.awaitBack(t, i)
	}
}

// The processes of a Fleet by kind, for parting.
func (f *Fleet) all() []int           { return indices(0, len(f.nodes)) }
func (f *Fleet) controlPlane() []int  { return indices(0, controls) }
func (f *Fleet) hostProcesses() []int { return indices(controls+gateways, len(f.nodes)) }

func indices(from, to int) (all []int) {
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
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
		f.awaitBack(t, i)
	}},
	{"kill a gateway", func(t testing.TB, f *Fleet, l *Load, rng *rand.Rand) {
		f.SettleRequests(t, l)
		l.AwaitProgress(t, 50)
		killingOne(someGateway)(t, f, l, rng)
	}},
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
	{"isolate a host", parting(someHost, (*Fleet).all)},
	{"cut a host off from the control plane", parting(someHost, (*Fleet).controlPlane)},
	{"freeze a host", freezing(someHost)},
	{"isolate a gateway", parting(someGateway, (*Fleet).all)},
	{"cut a gateway off from the hosts", parting(someGateway, (*Fleet).hostProcesses)},
	{"cut a gateway off from the control plane", parting(someGateway, (*Fleet).controlPlane)},
	{"freeze a gateway", freezing(someGateway)},
	{"isolate a process of the control plane", parting(someControl, (*Fleet).all)},
	{"freeze a process of the control plane", freezing(someControl)},
	{"restart the hosts one after the other", func(t testing.TB, f *Fleet, l *Load, _ *rand.Rand) {
		for _, i := range f.hostProcesses() {
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

// awaitBack waits until a process takes part again, because the next fault may take away another one of its kind.
func (f *Fleet) awaitBack(t testing.TB, i int) {
	t.Helper()
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the last answer of node %d: %v", i, err)
		}
	}()
	switch {
	case i < controls:
		f.await(t, "answer of a process of the control plane", func(ctx context.Context) bool {
			_, err = f.operators[i].Namespace(ctx, f.Namespace) // which followers answer, too
			return err == nil
		})
	case i < controls+gateways:
		f.await(t, "answer through a gateway", func(ctx context.Context) bool {
			_, err = f.nodes[i].client.Queues(ctx, client.Read{})
			return err == nil
		})
	}
	f.awaitMembers(t)
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
