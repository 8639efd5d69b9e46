package server_test

import (
	"context"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/tenancy"
)

// The throughput of the last minute is listed by queue, for callers with the right to the queue.
func TestThroughput(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	// The view counts the events that it reads from the feed, and none of those before its first build.
	if err := n.cell.View().Wait(ctx, uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"mine.a", "mine.a", "other"} {
		f := n.one(c, queue)
		if err := c.Ack(ctx, f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
			t.Fatal(err)
		}
	}
	f := n.one(c, "other")
	if _, err := c.Fail(ctx, f.JobID, api.FailRequest{Error: "boom", LeaseToken: f.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if err := n.cell.View().Wait(ctx, uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	q, err := c.Queue(ctx, "mine.a", client.Read{})
	if err != nil || q.RatePerMinute != 2 {
		t.Errorf("%v a minute, %v", q.RatePerMinute, err)
	}
	a := api.QueueThroughput{Queue: "mine.a", Rates: api.Rates{Enqueued: 2, Completed: 2}}
	other := api.QueueThroughput{Queue: "other", Rates: api.Rates{Enqueued: 2, Completed: 1, Failed: 1}}
	mine := n.key(tenancy.Key{Name: "mine", Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine.*"}})
	for key, want := range map[string]api.Throughput{
		n.admin: {PeriodSeconds: 60, Rates: a.Plus(other.Rates), Queues: []api.QueueThroughput{a, other}},
		mine:    {PeriodSeconds: 60, Rates: a.Rates, Queues: []api.QueueThroughput{a}},
	} {
		got, err := n.client(key).Throughput(ctx)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "the throughput", got, want)
	}
}
