package server_test

import (
	"encoding/json"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// became fails the test unless a job has a state.
func became(t *testing.T, c *client.Client, id, want string) {
	t.Helper()
	j, err := c.Job(t.Context(), id, client.Read{})
	if err != nil || j.State != want {
		t.Fatalf("job %s is %s, want %s: %v", id, j.State, want, err)
	}
}

// The Go client calls the actions of a person on a job.
func TestClientActsOnJobs(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	id := n.one(c, "q").JobID
	must := func(status string, err error) func(want string) {
		return func(want string) {
			t.Helper()
			if err != nil || status != want {
				t.Fatalf("%q, want %q: %v", status, want, err)
			}
		}
	}
	must(c.Cancel(ctx, id))("cancelling")
	if _, err := c.Fail(ctx, id, api.FailRequest{}); err != nil {
		t.Fatal(err)
	}
	became(t, c, id, "cancelled")
	must("", c.Retry(ctx, id))("")
	became(t, c, id, "pending")
	must("", c.Hold(ctx, id, "look at it"))("")
	became(t, c, id, "held")
	must("", c.Approve(ctx, id))("")
	must("", c.Move(ctx, id, "r"))("")
	must("", c.Hold(ctx, id, ""))("")
	must("", c.Reject(ctx, id, "no good"))("")
	became(t, c, id, "dead")
	for queue, want := range map[string]int64{"": 1, "r": 1, "q": 0} {
		page, err := c.Dead(ctx, client.DeadPage{Queue: queue, Limit: 1}, client.Read{Strong: true})
		if err != nil || page.Total != want {
			t.Errorf("%d dead jobs of %q, want %d: %v", page.Total, queue, want, err)
		}
	}
	must(c.Delete(ctx, id))("deleted")
	if _, err := c.Job(ctx, id, client.Read{}); api.CodeOf(err) != api.NotFound {
		t.Errorf("a deleted job: %v", err)
	}
	must(c.Delete(ctx, n.one(c, "q").JobID))("deleting")
	if err := c.Approve(ctx, id); api.CodeOf(err) != api.NotFound {
		t.Errorf("approve a deleted job: %v", err)
	}
}

// The Go client fills and seals an open batch.
func TestClientBatches(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	made, err := c.CreateBatch(ctx, api.NewBatch{CallbackQueue: "done", CallbackPayload: json.RawMessage(`{"a":1}`), Open: true}, []api.EnqueueRequest{{Queue: "q"}})
	if err != nil {
		t.Fatal(err)
	}
	if added, err := c.AddToBatch(ctx, made.BatchID, []api.EnqueueRequest{{Queue: "q"}, {Queue: "q"}}); err != nil || len(added.JobIDs) != 2 {
		t.Fatalf("%+v, %v", added, err)
	}
	if b, err := c.SealBatch(ctx, made.BatchID); err != nil || b.Open || b.Total != 3 {
		t.Fatalf("%+v, %v", b, err)
	}
	jobs, err := c.FetchBatch(ctx, api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"q"}}, Count: ptr(3)})
	if err != nil || len(jobs) != 3 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	for _, j := range jobs {
		if err := c.Ack(ctx, j.JobID, api.AckRequest{LeaseToken: j.LeaseToken}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := c.Batch(ctx, made.BatchID, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "status", b.Status, api.BatchCompleted)
	equal(t, "succeeded", b.Succeeded, 3)
	present(t, "callback_job_id", b.CallbackJobID)
}

// The Go client sets a queue's rate and deletes the queue.
func TestClientQueueWork(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	n.fill("q", "q")
	if err := c.Throttle(ctx, "q", api.ThrottleRequest{Rate: ptr(5), Period: "1m"}); err != nil {
		t.Fatal(err)
	}
	if q := n.queue("q"); q.RateLimit == nil || *q.RateLimit != 5 || *q.RateWindowMs != 60_000 {
		t.Errorf("%+v", q)
	}
	if err := c.Unthrottle(ctx, "q"); err != nil || n.queue("q").RateLimit != nil {
		t.Errorf("the rate limit is still there, %v", err)
	}
	if status, err := c.DrainQueue(ctx, "q"); err != nil || status != api.QueueDrained {
		t.Errorf("%q, %v", status, err)
	}
	if cleared, err := c.ClearQueue(ctx, "q"); err != nil || cleared.Removed != 2 {
		t.Errorf("%+v, %v", cleared, err)
	}
	if err := c.DeleteQueue(ctx, "q", false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queue(ctx, "q", client.Read{}); api.CodeOf(err) != api.NotFound {
		t.Errorf("a deleted queue: %v", err)
	}
}
