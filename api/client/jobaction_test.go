package client

import (
	"net/http"
	"testing"

	"github.com/corvo/corvo/api"
)

// The calls for jobs and batches use the right routes.
func TestJobRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, body string
		ask        func(c *Client) error
	}{
		{"POST /api/v1/jobs/a%2Fb/retry", "", func(c *Client) error { return c.Retry(t.Context(), "a/b") }},
		{"POST /api/v1/jobs/j/cancel", "", func(c *Client) error { _, err := c.Cancel(t.Context(), "j"); return err }},
		{"POST /api/v1/jobs/j/hold", `{"reason":"why"}`, func(c *Client) error { return c.Hold(t.Context(), "j", "why") }},
		{"POST /api/v1/jobs/j/approve", "", func(c *Client) error { return c.Approve(t.Context(), "j") }},
		{"POST /api/v1/jobs/j/approve", `{"payload":{"n":1},"agent":{"max_iterations":5}}`, func(c *Client) error {
			most := 5
			return c.ApproveWith(t.Context(), "j", api.ApproveRequest{Payload: []byte(`{"n":1}`), Agent: &api.AgentChanges{MaxIterations: &most}})
		}},
		{"POST /api/v1/jobs/j/reject", `{}`, func(c *Client) error { return c.Reject(t.Context(), "j", "") }},
		{"POST /api/v1/jobs/j/move", `{"queue":"q"}`, func(c *Client) error { return c.Move(t.Context(), "j", "q") }},
		{"DELETE /api/v1/jobs/j", "", func(c *Client) error { _, err := c.Delete(t.Context(), "j"); return err }},
		{"GET /api/v1/dead", "", func(c *Client) error { _, err := c.Dead(t.Context(), DeadPage{}, Read{}); return err }},
		{"GET /api/v1/dead?consistency=strong&cursor=c&limit=5&queue=a%26b", "", func(c *Client) error {
			_, err := c.Dead(t.Context(), DeadPage{Queue: "a&b", Limit: 5, Cursor: "c"}, Read{Strong: true})
			return err
		}},
		{"POST /api/v1/enqueue/batch", `{"jobs":[{"queue":"q"}],"batch":{"callback_queue":"d","open":true}}`, func(c *Client) error {
			_, err := c.CreateBatch(t.Context(), api.NewBatch{CallbackQueue: "d", Open: true}, []api.EnqueueRequest{{Queue: "q"}})
			return err
		}},
		{"POST /api/v1/batches/b/jobs", `{"jobs":[{"queue":"q"}]}`, func(c *Client) error {
			_, err := c.AddToBatch(t.Context(), "b", []api.EnqueueRequest{{Queue: "q"}})
			return err
		}},
		{"POST /api/v1/batches/b/seal", "", func(c *Client) error { _, err := c.SealBatch(t.Context(), "b"); return err }},
		{"GET /api/v1/batches/b?consistency=eventual", "", func(c *Client) error { _, err := c.Batch(t.Context(), "b", Read{Eventual: true}); return err }},
	} {
		client, server, _ := against(t, says(http.StatusOK, `{}`))
		if err := c.ask(client); err != nil {
			t.Errorf("%s: %v", c.want, err)
		}
		requests, bodies := server.requests()
		if got := requests[0].Method + " " + requests[0].RequestURI; got != c.want || bodies[0] != c.body {
			t.Errorf("%s %s, want %s %s", got, bodies[0], c.want, c.body)
		}
	}
}

// A retry of a job is repeated only with a key: the job may have settled again since a request whose
// response was lost.
func TestARetryIsNotRepeatedBlindly(t *testing.T) {
	t.Parallel()
	client, server, _ := against(t, hangsUp, says(http.StatusOK, `{"status":"pending"}`))
	if err := client.Retry(t.Context(), "j"); err == nil {
		t.Error("an answer that was lost counts as one")
	}
	if requests, _ := server.requests(); len(requests) != 1 {
		t.Errorf("%d requests", len(requests))
	}
	client, _, _ = against(t, hangsUp, says(http.StatusOK, `{"status":"pending"}`))
	WithKeyedWrites()(client)
	if err := client.Retry(t.Context(), "j"); err != nil {
		t.Error(err)
	}
}
