package server

import (
	"context"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// A queue is put only as it was read, if the request says so.
func TestPutQueueIfMatch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	refused := func(body string, header ...string) {
		t.Helper()
		if a := n.send("PUT", "/api/v1/queues/q", n.admin, body, header...); a.problem(t).Code != api.PreconditionFailed {
			t.Errorf("%s %v: %d %s", body, header, a.status, a.body)
		}
	}
	refused(`{}`, `If-Match: "1"`)
	if n.send("GET", "/api/v1/queues/q", n.admin, "").status != 404 {
		t.Error("what was refused made the queue")
	}
	made, err := c.PutQueueAt(ctx, "q", api.PutQueueRequest{}, 0)
	if err != nil || made.Version == 0 {
		t.Fatalf("made %+v, %v", made, err)
	}
	refused(`{}`, "If-None-Match: *")
	read, err := c.Queue(ctx, "q", client.Read{Strong: true})
	if err != nil || read.Version != made.Version {
		t.Fatalf("read version %d, made was %d, %v", read.Version, made.Version, err)
	}
	five, seven := 5, int64(7)
	put, err := c.PutQueueAt(ctx, "q", api.PutQueueRequest{MaxConcurrency: &five}, read.Version)
	if err != nil || put.Version == read.Version || put.MaxConcurrency == nil {
		t.Fatalf("put %+v, %v", put, err)
	}
	if _, err := c.PutQueueAt(ctx, "q", api.PutQueueRequest{MaxLength: &seven}, read.Version); api.CodeOf(err) != api.PreconditionFailed {
		t.Errorf("an old version: %v", err)
	}
	if err := c.PauseQueue(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutQueueAt(ctx, "q", api.PutQueueRequest{MaxLength: &seven}, put.Version); api.CodeOf(err) != api.PreconditionFailed {
		t.Errorf("paused meanwhile: %v", err)
	}
	for _, tag := range []string{"x", `"x"`, "", `W/"1"`} {
		refused(`{}`, "If-Match: "+tag)
	}
	if q := n.queue("q"); !q.Paused || q.MaxLength != nil {
		t.Errorf("the queue is %+v", q)
	}
	answers[api.Queue](n, 200, "PUT", "/queues/q", `{}`, "If-Match: *")
	if a := n.send("PUT", "/api/v1/queues/q", n.admin, `{}`, `If-None-Match: "1"`); a.problem(t).Code != api.ValidationError {
		t.Errorf("If-None-Match of a version: %d %s", a.status, a.body)
	}
	if read, err := c.Queues(ctx, client.Read{}); err != nil || len(read) != 1 || read[0].Version != 0 {
		t.Errorf("the list is %+v, %v", read, err)
	}
}

// Settings have no version: who insists on one is told.
func TestPutSettingsIfMatch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	for _, tag := range []string{`"1"`, "x"} {
		if a := n.send("PUT", "/api/v1/settings", n.admin, `{"unknown_model":"hold"}`, "If-Match: "+tag); a.problem(t).Code != api.PreconditionFailed {
			t.Errorf("%s: %d %s", tag, a.status, a.body)
		}
	}
	n.same(before)
	answers[api.Settings](n, 200, "PUT", "/settings", `{"unknown_model":"hold"}`, "If-Match: *")
}
