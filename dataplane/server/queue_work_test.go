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
)

// answers fails the test unless a request gets this answer.
func (n *node) answers(status int, want, method, path, body string) {
	n.t.Helper()
	if a := n.send(method, "/api/v1/queues/"+path, n.admin, body); a.status != status || strings.TrimSpace(string(a.body)) != want {
		n.t.Errorf("%s %s %s: answered %d %s, want %d %s", method, path, body, a.status, a.body, status, want)
	}
}

// TestPutQueueSetsAll checks that GET shows every setting of a PUT, also if the PUT is repeated, and that a
// PUT without settings resets all settings.
func TestPutQueueSetsAll(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	all := `{"paused":true,"max_concurrency":3,"rate_limit":10,"rate_window_ms":1000,"max_length":7,"on_full":"drop_oldest",` +
		`"retention":{"completed":"1h0m0s","dead":"forever"},` +
		`"defaults":{"priority":"high","max_retries":5,"retry_backoff":"fixed","retry_base_delay":"0s","retry_max_delay":"1m0s","retry_jitter_percent":20,"expire_after":"1h0m0s"}}`
	for range 2 {
		if a := n.send("PUT", "/api/v1/queues/q", n.admin, all); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	got := map[string]json.RawMessage{}
	if err := json.Unmarshal(n.send("GET", "/api/v1/queues/q", n.admin, "").body, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(all), &want); err != nil {
		t.Fatal(err)
	}
	for field, value := range want {
		if string(got[field]) != string(value) {
			t.Errorf("%s is %s, put was %s", field, got[field], value)
		}
	}
	if a := n.send("PUT", "/api/v1/queues/q", n.admin, `{}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	q := n.queue("q")
	wantFields(t, "a queue after an empty PUT", q, func(want *api.Queue) {
		want.Paused, want.MaxConcurrency, want.RateLimit, want.RateWindowMs, want.MaxLength = false, nil, nil, nil, nil
		want.OnFull, want.Retention, want.Defaults, want.Status = api.OnFullReject, nil, nil, api.QueueActive
	})
}

func TestQueueSettingsRefusals(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	for _, c := range []struct{ method, path, body, names string }{
		{"PUT", "q", `{"rate_limit":10000001,"rate_window_ms":1000}`, "rate_limit"},
		{"PUT", "q", `{"rate_limit":-1}`, "rate_limit"},
		{"PUT", "q", `{"rate_limit":1,"rate_window_ms":999}`, "rate_window_ms"},
		{"PUT", "q", `{"rate_limit":1,"rate_window_ms":86400001}`, "rate_window_ms"},
		{"PUT", "q", `{"max_length":-1}`, "max_length"},
		{"PUT", "q", `{"max_length":1000000001}`, "max_length"},
		{"PUT", "q", `{"on_full":"wait"}`, "on_full"},
		{"PUT", "q", `{"retention":{"dead":"never"}}`, "retention.dead"},
		{"PUT", "q", `{"retention":{"dead":"0s"}}`, "retention.dead"},
		{"PUT", "q", `{"retention":{"completed":"87601h"}}`, "retention.completed"},
		{"PUT", "q", `{"retention":{"cancelled":"-1h"}}`, "retention.cancelled"},
		{"PUT", "q", `{"retention":{"held":"1h"}}`, "held"},
		{"PUT", "q", `{"defaults":{"priority":"urgent"}}`, "defaults.priority"},
		{"PUT", "q", `{"defaults":{"max_retries":0}}`, "defaults.max_retries"},
		{"PUT", "q", `{"defaults":{"retry_backoff":"x"}}`, "defaults.retry_backoff"},
		{"PUT", "q", `{"defaults":{"retry_base_delay":"2m","retry_max_delay":"1m"}}`, "defaults.retry_max_delay"},
		{"PUT", "q", `{"defaults":{"retry_jitter_percent":101}}`, "defaults.retry_jitter_percent"},
		{"PUT", "q", `{"defaults":{"expire_after":"8761h"}}`, "defaults.expire_after"},
		{"POST", "q/throttle", `{}`, "rate"},
		{"POST", "q/throttle", `{"rate":0,"period":"1m"}`, "rate"},
		{"POST", "q/throttle", `{"rate":10000001,"period":"1m"}`, "rate"},
		{"POST", "q/throttle", `{"rate":1}`, "period"},
		{"POST", "q/throttle", `{"rate":1,"period":"1m","window_ms":60000}`, "period"},
		{"POST", "q/throttle", `{"rate":1,"period":"minute"}`, "period"},
		{"POST", "q/throttle", `{"rate":1,"period":"25h"}`, "period"},
		{"POST", "q/throttle", `{"rate":1,"window_ms":999}`, "window_ms"},
		{"POST", "a%20b/drain", ``, "name"},
		{"POST", "a%20b/clear", ``, "name"},
	} {
		a := n.send(c.method, "/api/v1/queues/"+c.path, n.admin, c.body)
		if p := a.problem(t); p.Code != api.ValidationError || !strings.Contains(p.Error, c.names) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.status, a.body)
		}
	}
	if a := n.send("DELETE", "/api/v1/queues/none/throttle", n.admin, ""); a.status != 404 || a.problem(t).Code != api.NotFound {
		t.Errorf("lifted the limit of a queue that is none: %d %s", a.status, a.body)
	}
	if a := n.send("POST", "/api/v1/queues/none/clear", n.admin, ""); a.status != 404 || a.problem(t).Code != api.NotFound {
		t.Errorf("cleared a queue that is none: %d %s", a.status, a.body)
	}
	n.same(before)
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.answers(200, `{"status":"updated"}`, "POST", "q/throttle", `{"rate":5,"period":"1m"}`)
	wantFields(t, "the throttled queue", n.queue("q"), func(want *api.Queue) {
		want.RateLimit, want.RateWindowMs = ptr(5), ptr(int64(60_000))
	})
	n.answers(200, `{"status":"updated"}`, "POST", "q/throttle", `{"rate":1,"window_ms":86400000}`)
	n.answers(200, `{"status":"updated"}`, "DELETE", "q/throttle", ``)
	if q := n.queue("q"); q.RateLimit != nil || q.RateWindowMs != nil {
		t.Errorf("the queue is %+v", q)
	}
}

// A poll for a queue that has spent its rate gets its job as soon as the rate window permits it.
func TestAPollIsServedWhenTheRateAllows(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	n.answers(200, `{"status":"updated"}`, "POST", "q/throttle", `{"rate":1,"window_ms":1000}`)
	for range 3 {
		if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
	}
	var started []time.Time
	for range 3 {
		f, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"q"}, Timeout: ptr(60)})
		if err != nil || f == nil {
			t.Fatalf("fetched %v, %v", f, err)
		}
		started = append(started, n.startedAt(f.JobID))
	}
	for i := range 2 {
		// The machine may be busy: only a poll that was not woken waits for long.
		if between := started[i+1].Sub(started[i]); between < time.Second || between > 30*time.Second {
			t.Errorf("job %d was let go %s after the one before", i+2, between)
		}
	}
}

// startedAt returns the time at which a job started, by the clock of the log.
func (n *node) startedAt(id string) time.Time {
	n.t.Helper()
	j, err := n.client(n.admin).Job(context.Background(), id, client.Read{})
	if err != nil || j.StartedAt == nil {
		n.t.Fatalf("job %s: %+v, %v", id, j, err)
	}
	at, _, err := j.StartedAt.Parse()
	if err != nil {
		n.t.Fatal(err)
	}
	return at
}

func TestDrainQueue(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c := n.client(n.admin)
	f := n.one(c, "q")
	n.answers(200, `{"status":"draining"}`, "POST", "q/drain", ``)
	if q := n.queue("q"); q.Status != api.QueueDraining || !q.Paused {
		t.Errorf("the queue is %+v", q)
	}
	if err := c.Ack(context.Background(), f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	n.answers(200, `{"status":"drained"}`, "POST", "q/drain", ``)
	if q := n.queue("q"); q.Status != api.QueueDrained {
		t.Errorf("the queue is %+v", q)
	}
	n.answers(200, `{"status":"resumed"}`, "POST", "q/resume", ``)
	if q := n.queue("q"); q.Status != api.QueueActive || q.Paused {
		t.Errorf("the queue is %+v", q)
	}
	n.answers(200, `{"status":"drained"}`, "POST", "new/drain", ``)
}

func TestClearQueue(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	active := n.one(c, "q")
	for i := range 1500 {
		if i%500 == 0 {
			var jobs []string
			for range 500 {
				jobs = append(jobs, `{"queue":"q"}`)
			}
			body := fmt.Sprintf(`{"jobs":[%s]}`, strings.Join(jobs, ","))
			if a := n.send("POST", "/api/v1/enqueue/batch", n.admin, body); a.status != 201 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
	}
	if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q", ScheduledAt: api.TimeOf(time.Now().Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	n.answers(200, `{"status":"cleared","removed":1501}`, "POST", "q/clear", ``)
	wantFields(t, "the cleared queue", n.queue("q"), func(want *api.Queue) {
		want.Pending, want.Scheduled, want.Active, want.Cancelled = 0, 0, 1, 0
	})
	n.answers(200, `{"status":"cleared","removed":0}`, "POST", "q/clear", ``)
	if err := c.Ack(ctx, active.JobID, api.AckRequest{LeaseToken: active.LeaseToken}); err != nil {
		t.Error(err)
	}
}

func TestDeleteQueueWithJobs(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()

	// At once if no worker has a job.
	f := n.one(c, "q")
	if err := c.Ack(ctx, f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	n.answers(200, `{"status":"deleted"}`, "DELETE", "q?confirm=true", ``)
	if _, err := c.Queue(ctx, "q", client.Read{}); api.CodeOf(err) != api.NotFound {
		t.Errorf("the deleted queue: %v", err)
	}
	if _, err := c.Job(ctx, f.JobID, client.Read{}); api.CodeOf(err) != api.NotFound {
		t.Errorf("a job of it: %v", err)
	}

	// Later if a worker must first stop a job.
	f = n.one(c, "busy")
	n.waitsAtMost(50*time.Millisecond, func() { n.answers(202, `{"status":"deleting"}`, "DELETE", "busy?confirm=true", ``) })
	if q := n.queue("busy"); q.Status != api.QueueDeleting {
		t.Errorf("the queue is %+v", q)
	}
	if a := n.send("POST", "/api/v1/queues/busy/resume", n.admin, ""); a.problem(t).Code != api.Conflict {
		t.Errorf("resumed: %d %s", a.status, a.body)
	}
	if err := c.Ack(ctx, f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the queue is gone", func() bool {
		_, err := c.Queue(ctx, "busy", client.Read{})
		return api.CodeOf(err) == api.NotFound
	})
}
