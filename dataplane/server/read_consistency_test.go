package server_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/server"
)

// TestReadYourWrites checks that a search shows every write that was answered before the search, for each way
// to ask for that, such as the write's position.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	for i := range int64(20) {
		a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q"}`)
		index := a.header.Get("Corvo-Index")
		if a.status != 201 || index == "" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for _, read := range []client.Read{{}, {Strong: true}, {MinIndex: index}, {MinIndex: index, Eventual: true}} {
			got, err := c.Search(ctx, api.SearchRequest{SearchFilter: api.SearchFilter{Queue: "q"}}, read)
			if err != nil || got.Total != i+1 {
				t.Fatalf("%+v after %d writes: %d, %v", read, i+1, got.Total, err)
			}
		}
	}
}

// TestAnAnswerWaitsForItsOwnWrite checks that a request whose answer needs this node's store waits until the
// store has the request's own write. After ReadWait the answer is VIEW_BEHIND.
func TestAnAnswerWaitsForItsOwnWrite(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.ReadWait = 10 * time.Millisecond })
	n.enqueue("q")
	if err := n.server.AwaitOwn(t.Context(), 0, n.cell.Applied()); err != nil {
		t.Errorf("an applied write: %v", err)
	}
	err := n.server.AwaitOwn(t.Context(), 0, n.cell.Applied()+1000)
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.ViewBehind || e.RetryAfter == 0 {
		t.Errorf("a write that is not applied: %v", err)
	}

	n.server.Config().ReadWait = time.Minute
	next, done := n.cell.Applied()+1, make(chan error, 1)
	go func() { done <- n.server.AwaitOwn(t.Context(), 0, next) }()
	n.enqueue("q")
	if err := <-done; err != nil {
		t.Errorf("a write that is applied later: %v", err)
	}
}

// TestViewBehind checks that a read for a position that the view does not reach in time answers VIEW_BEHIND.
func TestViewBehind(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.ReadWait = 10 * time.Millisecond })
	for _, path := range []string{"/api/v1/queues", "/api/v1/auth/keys"} {
		a := n.send("GET", path+"?min_index="+server.EncodeIndex(0, n.cell.Applied()+1000), n.admin, "")
		p := a.problem(t)
		if a.status != 503 || p.Code != api.ViewBehind || p.Details["retryable"] != true {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// The answer of a write is read from the view, which may be late. Then the client is asked to try again, and
// does not get an internal error.
func TestWritesAnswerFromALateView(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(cfg *server.Config) { cfg.ReadWait = 100 * time.Microsecond })
	for i := range 400 {
		a := n.send("PUT", "/api/v1/queues/q", n.admin, `{"paused":true}`)
		if a.status != 200 && a.status != 503 {
			t.Fatalf("PUT %d: %d %s", i, a.status, a.body)
		}
	}
}
