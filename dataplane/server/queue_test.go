package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// PUT replaces all settings of a queue, and the answer shows them.
func TestPutQueue(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for _, c := range []struct {
		body        string
		paused      bool
		concurrency *int
	}{
		{`{"paused":true,"max_concurrency":3}`, true, ptr(3)}, // creates the queue
		{`{"paused":true,"max_concurrency":3}`, true, ptr(3)}, // again
		{`{"max_concurrency":1000000}`, false, ptr(job.MaxConcurrency)},
		{`{"paused":true}`, true, nil},
		{`{"max_concurrency":5}`, false, ptr(5)},
		{`{"max_concurrency":null,"paused":null}`, false, nil},
		{`{"max_concurrency":0}`, false, nil},
		{`{"max_concurrency":2,"rate_limit":null,"rate_window_ms":0,"provider":""}`, false, ptr(2)}, // null and empty values set nothing
		{``, false, nil},
	} {
		a := n.send("PUT", "/api/v1/queues/q", n.admin, c.body)
		var got api.Queue
		if err := json.Unmarshal(a.body, &got); err != nil || a.status != 200 {
			t.Fatalf("%s: %d %s", c.body, a.status, a.body)
		}
		wantFields(t, c.body, got, func(want *api.Queue) { want.Name, want.Paused, want.MaxConcurrency = "q", c.paused, c.concurrency })
		if read := n.send("GET", "/api/v1/queues/q", n.admin, ""); string(read.body) != string(a.body) {
			t.Errorf("%s: PUT answered %s, GET %s", c.body, a.body, read.body)
		}
		if a.header.Get(server.IndexHeader) == "" {
			t.Errorf("%s: no %s", c.body, server.IndexHeader)
		}
	}
}

// A change of another setting does not end the draining of a queue; resuming it does.
func TestPutQueueWhileItDrains(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.enqueued(`{"queue":"q"}`)
	answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["q"],"worker_id":"w","timeout":0}`)
	answers[api.Status](n, 200, "POST", "/queues/q/drain", `{}`)
	for _, c := range []struct{ body, want string }{
		{`{"paused":true,"max_concurrency":5}`, api.QueueDraining},
		{`{"max_concurrency":5}`, "active"},
		{`{"paused":true}`, "paused"},
	} {
		if q := answers[api.Queue](n, 200, "PUT", "/queues/q", c.body); q.Status != c.want {
			t.Errorf("%s: the queue is %s, want %s", c.body, q.Status, c.want)
		}
	}
}

func TestPutQueueRefusals(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	for body, want := range map[string]struct {
		code  api.Code
		names string
	}{
		`{"max_concurrency":-1}`:                  {api.ValidationError, "max_concurrency"},
		`{"max_concurrency":1000001}`:             {api.ValidationError, "max_concurrency"},
		`{"max_concurrency":"5"}`:                 {api.ValidationError, "max_concurrency"},
		`{"paused":1}`:                            {api.ValidationError, "paused"},
		`{"max":5}`:                               {api.ValidationError, "max"},
		`{"rate_limit":10}`:                       {api.ValidationError, "rate_window_ms is missing; rate_limit needs it"},
		`{"rate_limit":10,"rate_window_ms":0}`:    {api.ValidationError, "rate_window_ms is missing; rate_limit needs it"},
		`{"rate_limit":10,"rate_window_ms":-1}`:   {api.ValidationError, "rate_window_ms is -1 ms"},
		`{"rate_window_ms":1000,"paused":true}`:   {api.ValidationError, "rate_window_ms"},
		`{"provider":"open ai"}`:                  {api.ValidationError, "provider"},
		`{"rate_limit":10,"max_concurrency":-1}`:  {api.ValidationError, "rate_window_ms"},
		`{"max_concurrency":1,"max_concurrency"}`: {api.ParseError, "JSON"},
	} {
		a := n.send("PUT", "/api/v1/queues/q", n.admin, body)
		if p := a.problem(t); p.Code != want.code || a.status != want.code.Status() || !strings.Contains(p.Error, want.names) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a := n.send("PUT", "/api/v1/queues/a%20b", n.admin, `{}`); a.problem(t).Code != api.ValidationError {
		t.Errorf("a bad name: %s", a.body)
	}
	for path, body := range map[string]string{
		"/enqueue":     `{"queue":".."}`,
		"/providers":   `{"name":"."}`,
		"/auth/roles":  `{"name":"..","permissions":["queue.read"]}`,
		"/budgets":     `{"scope":"key","target":"..","daily_usd":1}`,
		"/limit-rules": `{"queue":"..","key":"k","max_concurrency":1}`,
	} {
		if a := n.send("POST", "/api/v1"+path, n.admin, body); a.problem(t).Code != api.ValidationError || !strings.Contains(string(a.body), "paths") {
			t.Errorf("a name that no path can have: %s %s: %d %s", path, body, a.status, a.body)
		}
	}
	n.same(before)
}

func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	if _, err := c.PutQueue(ctx, "empty", api.PutQueueRequest{Paused: ptr(true)}); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "?confirm=", "?confirm=1", "?confirm=false"} {
		a := n.send("DELETE", "/api/v1/queues/empty"+query, n.admin, "")
		if p := a.problem(t); p.Code != api.ValidationError || !strings.Contains(p.Error, "confirm") {
			t.Errorf("%q: %d %s", query, a.status, a.body)
		}
	}
	if a := n.send("DELETE", "/api/v1/queues/empty?confirm=true", n.admin, ""); a.status != 200 || string(a.body) != "{\"status\":\"deleted\"}\n" {
		t.Errorf("answered %d %s", a.status, a.body)
	}
	// No answer shows the queue from now on.
	if _, err := c.Queue(ctx, "empty", client.Read{}); api.CodeOf(err) != api.NotFound {
		t.Errorf("the deleted queue: %v", err)
	}
	if all, err := c.Queues(ctx, client.Read{}); err != nil || len(all) != 0 {
		t.Errorf("the queues: %v, %v", all, err)
	}
	if err := c.DeleteQueue(ctx, "empty", false); api.CodeOf(err) != api.NotFound {
		t.Errorf("deleted twice: %v", err)
	}
}

// A poll waits for a queue's name, so it gets the job of a later queue with that name.
func TestAPollOutlivesItsQueue(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	eventually(t, "the queue is set", func() bool {
		_, err := c.PutQueue(ctx, "q", api.PutQueueRequest{Paused: ptr(true)})
		if err != nil && api.CodeOf(err) != api.Overloaded { // the view of a busy machine
			t.Fatal(err)
		}
		return err == nil
	})
	got := make(chan *api.FetchedJob, 1)
	go func() {
		f, err := n.client(n.admin).Fetch(ctx, api.FetchRequest{Queues: []string{"q"}, Timeout: ptr(60)})
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	n.parked(1)
	if err := c.DeleteQueue(ctx, "q", false); err != nil {
		t.Fatal(err)
	}
	made, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}) // the new queue is not paused
	if err != nil {
		t.Fatal(err)
	}
	select {
	case f := <-got:
		if f == nil || f.JobID != made.JobID {
			t.Errorf("fetched %+v, want job %s", f, made.JobID)
		}
	case <-time.After(time.Minute):
		t.Fatal("the poll was not served")
	}
}

// Both routes need queue.manage on the queue.
func TestQueueManagementIsScoped(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	mine := n.key(tenancy.Key{Name: "mine", Roles: []tenancy.Role{tenancy.Operator}, QueueScope: []tenancy.Glob{"mine.*"}})
	worker := n.key(tenancy.Key{Name: "worker", Roles: []tenancy.Role{tenancy.Worker}})
	for _, c := range []struct {
		key, queue string
		want       int
	}{{mine, "mine.a", 200}, {mine, "other", 403}, {worker, "mine.a", 403}, {"", "mine.a", 401}} {
		for _, send := range []struct{ method, query string }{{"PUT", ""}, {"DELETE", "?confirm=true"}} {
			path := fmt.Sprintf("/api/v1/queues/%s%s", c.queue, send.query)
			if a := n.send(send.method, path, c.key, ""); a.status != c.want {
				t.Errorf("%s %s: %d %s, want %d", send.method, path, a.status, a.body, c.want)
			}
		}
	}
}
