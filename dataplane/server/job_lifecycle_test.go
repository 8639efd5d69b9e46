package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()

	made, err := c.Enqueue(ctx, api.EnqueueRequest{
		Queue: "emails.send", Payload: json.RawMessage(`{"to":"a@example.com","n":12345678901234567890}`),
		Priority: api.High, MaxRetries: ptr(2), RetryBackoff: "fixed", RetryBaseDelay: "1h", RetryMaxDelay: "2h",
		Tags: api.Strings{"tenant": "acme"}, Headers: api.Strings{"traceparent": "00-1-2-3"}, Checkpoint: json.RawMessage(`{"at":7}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if made.Status != "pending" || made.UniqueExisting {
		t.Errorf("enqueue answered %+v", made)
	}

	got, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"other", "emails.send"}, WorkerID: "w1", Hostname: "h1", LeaseDuration: 90})
	if err != nil || got == nil {
		t.Fatalf("fetch: %v, %v", got, err)
	}
	want := api.FetchedJob{
		JobID: made.JobID, Queue: "emails.send", Payload: json.RawMessage(`{"to":"a@example.com","n":12345678901234567890}`),
		Attempt: 1, MaxRetries: 2, LeaseDuration: 90, LeaseToken: got.LeaseToken, Checkpoint: json.RawMessage(`{"at":7}`),
		Tags: api.Strings{"tenant": "acme"}, Headers: api.Strings{"traceparent": "00-1-2-3"},
	}
	equal(t, "the fetched job", *got, want)
	equal(t, "the length of the lease token", len(got.LeaseToken), 32)

	beat, err := c.Heartbeat(ctx, api.HeartbeatRequest{Jobs: map[string]*api.HeartbeatJob{
		got.JobID: {LeaseToken: got.LeaseToken, Progress: json.RawMessage(`{"current":1}`), Usage: &api.ReportedUsage{InputTokens: 5, CostUSD: new(money.Reported(money.Dollar / 4))}},
	}})
	if err != nil || beat.Jobs[got.JobID].Status != "ok" || !slices.Equal(beat.Acked, []string{got.JobID}) {
		t.Errorf("heartbeat: %+v, %v", beat, err)
	}

	failed, err := c.Fail(ctx, got.JobID, api.FailRequest{Error: "no route", Backtrace: "at x", LeaseToken: got.LeaseToken})
	if err != nil {
		t.Fatal(err)
	}
	wantFields(t, "the answer of fail", failed, func(want *api.FailResponse) {
		want.Status, want.Attempt, want.AttemptsRemaining = "retrying", 1, 1
	})
	present(t, "next_attempt_at", failed.NextAttemptAt)
	doc, err := c.Job(ctx, made.JobID, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "errors", len(doc.Errors), 1)
	wantFields(t, "the job after its failure", doc, func(want *api.Job) {
		want.State, want.Priority, want.LastError, want.ScheduledAt = "retrying", 1, ptr("no route"), &failed.NextAttemptAt
		want.CostUSD, want.RetryBaseDelayMs = money.Dollar/4, time.Hour.Milliseconds()
	})

	second := n.one(c, "emails.send")
	if err := c.Ack(ctx, second.JobID, api.AckRequest{Result: json.RawMessage(`{"sent":true}`), LeaseToken: second.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if err := c.Ack(ctx, second.JobID, api.AckRequest{LeaseToken: second.LeaseToken}); err != nil {
		t.Errorf("a repeated ack: %v", err)
	}
	if doc, err = c.Job(ctx, second.JobID, client.Read{}); err != nil {
		t.Fatal(err)
	}
	wantFields(t, "the job after its ack", doc, func(want *api.Job) {
		want.State, want.Result, want.Payload = "completed", json.RawMessage(`{"sent":true}`), json.RawMessage(`{}`)
	})

	checkSearch(t, c, "emails.send", second.JobID)
	queues, err := c.Queues(ctx, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	if len(queues) != 1 {
		t.Fatalf("the queues are %+v, want one", queues)
	}
	wantFields(t, "the queue", queues[0], func(want *api.Queue) { want.Completed, want.Retrying = 1, 1 })
}

// checkSearch checks that a search of a queue finds two jobs, the given one first.
func checkSearch(t *testing.T, c *client.Client, queue, first string) {
	t.Helper()
	found, err := c.Search(t.Context(), api.SearchRequest{SearchFilter: api.SearchFilter{Queue: queue}}, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "total", found.Total, 2)
	if len(found.Jobs) != 2 || found.Jobs[0].ID != first {
		t.Errorf("the search finds %+v, want %s first", found.Jobs, first)
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()

	jobs := make([]api.EnqueueRequest, 5)
	for i := range jobs {
		jobs[i] = api.EnqueueRequest{Queue: "q", Payload: json.RawMessage(`{"i":` + string(rune('0'+i)) + `}`)}
	}
	jobs[4].ScheduledAt = api.TimeOf(time.Now().Add(time.Hour))
	made, err := c.EnqueueBatch(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.JobIDs) != 5 {
		t.Fatalf("enqueue: %+v", made)
	}
	equal(t, "the first job's status", made.Results[0].Status, "pending")
	equal(t, "the last job's status", made.Results[4].Status, "scheduled")
	got, err := c.FetchBatch(ctx, api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"q"}}, Count: ptr(100000)})
	if err != nil || len(got) != 4 {
		t.Fatalf("fetched %d jobs, %v", len(got), err)
	}
	for i, f := range got {
		if f.JobID != made.JobIDs[i] {
			t.Errorf("job %d is %s, want %s", i, f.JobID, made.JobIDs[i])
		}
	}
	acks := []api.AckItem{
		{JobID: got[0].JobID, AckRequest: api.AckRequest{LeaseToken: got[0].LeaseToken}},
		{JobID: "nonsense"},
		{JobID: got[1].JobID, AckRequest: api.AckRequest{LeaseToken: got[0].LeaseToken}},
		{JobID: got[2].JobID, AckRequest: api.AckRequest{LeaseToken: "short"}},
		{JobID: got[3].JobID, AckRequest: api.AckRequest{LeaseToken: got[3].LeaseToken}},
		{JobID: "job_00000000000000000000000000"},
	}
	out, err := c.AckBatch(ctx, acks)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]api.Code{}
	for _, e := range out.Errors {
		codes[e.JobID] = e.Code
	}
	equal(t, "acked", out.Acked, 2)
	equal(t, "errors", codes, map[string]api.Code{
		"nonsense": api.NotFound, got[1].JobID: api.LeaseLost, got[2].JobID: api.ValidationError, "job_00000000000000000000000000": api.NotFound,
	})
	if a := n.send("POST", "/api/v1/ack/batch", n.admin, `{"acks":[]}`); a.status != 200 || string(a.body) != "{\"acked\":0}\n" {
		t.Errorf("ack of nothing: %d %s", a.status, a.body)
	}
}

// A fetch without work answers 204, and a batch fetch an empty list.
func TestFetchNothing(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.cell.Applied()
	if a := n.send("POST", "/api/v1/fetch", n.admin, `{"queues":["q"],"timeout":0}`); a.status != 204 || len(a.body) != 0 {
		t.Errorf("fetch: %d %s", a.status, a.body)
	}
	if a := n.send("POST", "/api/v1/fetch/batch", n.admin, `{"queues":["q"],"timeout":0}`); a.status != 200 || string(a.body) != "{\"jobs\":[]}\n" {
		t.Errorf("fetch/batch: %d %s", a.status, a.body)
	}
	if after := n.cell.Applied(); after != before {
		t.Errorf("empty fetches were logged: index %d, was %d", after, before)
	}
}

// The arrival of a job, and not a timer, wakes a waiting fetch. Other work of the machine delays a wake, so the
// fastest of a few tries counts.
func TestFetchWakes(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	fastest := time.Hour
	for range 10 {
		got := make(chan *api.FetchedJob, 1)
		before := n.cell.Applied()
		go func() {
			f, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"q"}, Timeout: ptr(60)})
			if err != nil {
				t.Error(err)
			}
			got <- f
		}()
		n.parked(1)
		if n.cell.Applied() != before {
			t.Error("a waiting fetch was logged")
		}
		start := time.Now()
		if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		if <-got == nil {
			t.Fatal("no job came")
		}
		fastest = min(fastest, time.Since(start))
	}
	if fastest > 50*time.Millisecond {
		t.Errorf("the fastest wake took %v", fastest)
	}
	t.Logf("the fastest wake took %v", fastest)
}

// Drain ends the waiting polls.
func TestDrain(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	status := make(chan int, 1)
	go func() { status <- n.send("POST", "/api/v1/fetch", n.admin, `{"queues":["q"],"timeout":60}`).status }()
	n.parked(1)
	n.server.Drain()
	if got := <-status; got != http.StatusNoContent {
		t.Errorf("a drained poll answered %d", got)
	}
	if a := n.send("GET", "/readyz", "", ""); a.status != 503 || a.problem(t).Code != api.Unhealthy {
		t.Errorf("readyz while draining: %d %s", a.status, a.body)
	}
	if a := n.send("GET", "/healthz", "", ""); a.status != 200 {
		t.Errorf("healthz while draining: %d %s", a.status, a.body)
	}
}

func TestQueueSettings(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	none := api.FetchRequest{Queues: []string{"q"}, Timeout: ptr(0)}
	if err := c.PauseQueue(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := c.Fetch(ctx, none); f != nil || err != nil {
		t.Errorf("a paused queue gave %v, %v", f, err)
	}
	if err := c.SetConcurrency(ctx, "q", 1); err != nil {
		t.Fatal(err)
	}
	if err := c.ResumeQueue(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	first, err := c.Fetch(ctx, none)
	if err != nil || first == nil {
		t.Fatalf("a resumed queue gave %v, %v", first, err)
	}
	if f, err := c.Fetch(ctx, none); f != nil || err != nil {
		t.Errorf("a full queue gave %v, %v", f, err)
	}
	q, err := c.Queue(ctx, "q", client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	wantFields(t, "the queue", q, func(want *api.Queue) {
		want.Active, want.Pending, want.MaxConcurrency, want.Status = 1, 2, ptr(1), "active"
	})
	if _, err := c.Queue(ctx, "unknown", client.Read{}); !errors.Is(err, &api.Error{Code: api.NotFound}) {
		t.Errorf("an unknown queue: %v", err)
	}
}

// TestIdempotency checks that a repeat with its Idempotency-Key gets the first answer, and that a request
// with the same key and another body is refused.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	const path, key = "/api/v1/enqueue", "Idempotency-Key: k1"
	first := n.send("POST", path, n.admin, `{"queue":"q"}`, key)
	again := n.send("POST", path, n.admin, `{"queue":"q"}`, key)
	if first.status != 201 || again.status != 201 || string(first.body) != string(again.body) {
		t.Errorf("first %d %s, again %d %s", first.status, first.body, again.status, again.body)
	}
	before := n.dump()
	for _, bad := range []struct {
		name, path, body string
		status           int
		code             api.Code
		header           string
	}{
		{"another body", path, `{"queue":"p"}`, 409, api.IdempotencyMismatch, key},
		{"another route", "/api/v1/queues/q/pause", ``, 409, api.IdempotencyMismatch, key},
		{"too long", path, `{"queue":"q"}`, 400, api.ValidationError, "Idempotency-Key: " + strings.Repeat("k", 256)},
		{"empty", path, `{"queue":"q"}`, 400, api.ValidationError, "Idempotency-Key: "},
		{"with a space", path, `{"queue":"q"}`, 400, api.ValidationError, "Idempotency-Key: a b"},
	} {
		if a := n.send("POST", bad.path, n.admin, bad.body, bad.header); a.status != bad.status || a.problem(t).Code != bad.code {
			t.Errorf("%s: %d %s", bad.name, a.status, a.body)
		}
	}
	n.same(before)
	if a := n.send("POST", path, n.admin, `{"queue":"q"}`, "Idempotency-Key: "+strings.Repeat("k", 255)); a.status != 201 {
		t.Errorf("the longest key: %d %s", a.status, a.body)
	}
}
