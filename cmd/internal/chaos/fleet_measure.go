package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
)

// Leader waits until a host leads the namespace, and returns its process.
func (f *Fleet) Leader(t testing.TB) int {
	t.Helper()
	leader := -1
	f.await(t, "leader of the namespace", func(ctx context.Context) bool {
		c, err := f.Operator().Cluster(ctx, f.Namespace)
		if err != nil || len(c.Status.Groups) == 0 {
			return false
		}
		_, err = fmt.Sscanf(c.Status.Groups[0].LeaderHost, "node-%d", &leader)
		return err == nil && f.Up(leader)
	})
	return leader
}

// CreateTime creates a namespace and returns the time from the request to the first acknowledged job in it. round
// makes its name unique.
func (f *Fleet) CreateTime(t testing.TB, round, replicas int) time.Duration {
	t.Helper()
	began := time.Now()
	made := do(t, f, "namespace", func(ctx context.Context) (api.Operation, error) {
		return f.Operator().CreateNamespace(ctx, f.Org, api.CreateNamespaceRequest{
			Name: fmt.Sprintf("n-%d-%d", replicas, round), Spec: &api.NewNamespaceSpec{Replicas: &replicas},
		})
	})
	c := newClient(t, f.gatewayURL(0), f.newKey(t, made.Resource.ID), newTransport())
	f.await(t, "acknowledged job", func(ctx context.Context) bool {
		_, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: queue})
		return err == nil
	})
	return time.Since(began).Round(time.Millisecond)
}

// FailoverGap kills the host that leads the namespace and returns the time until a gateway acknowledges a write. Then
// it starts the host again.
func (f *Fleet) FailoverGap(t testing.TB) time.Duration {
	t.Helper()
	leader := f.Leader(t)
	f.Kill(t, leader)
	killed := time.Now()
	f.await(t, "acknowledged write after a failover", func(ctx context.Context) bool {
		_, err := f.Client(0).Enqueue(ctx, api.EnqueueRequest{Queue: queue})
		return err == nil
	})
	gap := time.Since(killed).Round(time.Millisecond)
	f.StartNode(t, leader)
	f.awaitMembers(t)
	f.await(t, "report of another leader", func(context.Context) bool { return f.Leader(t) != leader })
	return gap
}

// Move fills the namespace with jobs and drains the host that leads it, under load. It returns the time until the host
// is empty, the longest time without an acknowledged enqueue meanwhile, and the number of enqueues without a known outcome.
func (f *Fleet) Move(t testing.TB, jobs int) (took, gap time.Duration, failed int) {
	t.Helper()
	const batch = 1000
	items := make([]api.EnqueueRequest, batch)
	for i := range items {
		items[i] = api.EnqueueRequest{Queue: "waiting"}
	}
	for range jobs / batch {
		f.await(t, "acknowledged batch", func(ctx context.Context) bool {
			_, err := f.Client(0).EnqueueBatch(ctx, items)
			return err == nil
		})
	}
	l := StartLoad(t, f, 2)
	l.AwaitProgress(t, 100)
	l.gap.take()
	leader := nodeName(f.Leader(t))
	began := time.Now()
	f.await(t, "drained host", func(ctx context.Context) bool {
		status, err := f.Operator().DrainHost(ctx, leader)
		return err == nil && status == api.HostDrained
	})
	took = time.Since(began).Round(time.Millisecond)
	gap = l.gap.take().Round(time.Millisecond)
	l.Finish(t)
	return took, gap, l.History.lostEnq
}
