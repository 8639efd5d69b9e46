package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// complete enqueues and acks jobs of a queue.
func (n *node) complete(queue string, jobs int) (ids []string) {
	n.t.Helper()
	c := n.client(n.admin)
	for range jobs {
		f := n.one(c, queue)
		if err := c.Ack(context.Background(), f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
			n.t.Fatal(err)
		}
		ids = append(ids, f.JobID)
	}
	return ids
}

// set sends a PUT that must succeed.
func (n *node) set(path, body string) {
	n.t.Helper()
	if a := n.send("PUT", "/api/v1/"+path, n.admin, body); a.status != 200 {
		n.t.Fatalf("PUT %s %s: %d %s", path, body, a.status, a.body)
	}
}

// settledIn returns how many completed jobs a queue has, in its counters and in the view.
func settledIn(t *testing.T, c *client.Client, queue string) (counted, listed int) {
	t.Helper()
	ctx := context.Background()
	q, err := c.Queue(ctx, queue, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	filter := api.SearchFilter{Queue: queue, State: []string{"completed"}}
	found, err := c.Search(ctx, api.SearchRequest{SearchFilter: filter}, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	return int(q.Completed), int(found.Total)
}

// Settled jobs are removed when they are older than a shortened retention, whether the queue's or the node's
// retention changes.
func TestAShorterRetentionFreesSettledJobs(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			c := n.client(n.admin)
			for _, queue := range []string{"own", "kept", "node"} {
				n.complete(queue, 5)
			}
			gone := func(queue string) func() bool {
				return func() bool {
					counted, listed := settledIn(t, c, queue)
					return counted == 0 && listed == 0
				}
			}
			n.set("queues/kept", `{"retention":{"completed":"24h"}}`)
			n.set("queues/own", `{"retention":{"completed":"1ms"}}`)
			eventually(t, "the queue's jobs are gone", gone("own"))
			if counted, _ := settledIn(t, c, "node"); counted != 5 {
				t.Errorf("%d jobs of a queue without a retention are left", counted)
			}
			n.set("settings", `{"retention":{"completed":"1ms"}}`)
			eventually(t, "the jobs of a queue without a retention are gone", gone("node"))
			if counted, listed := settledIn(t, c, "kept"); counted != 5 || listed != 5 {
				t.Errorf("of a queue with a longer retention %d jobs are left, %d in the view", counted, listed)
			}
		})
	}
}
