package server_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/job"
)

// enqueueOption is an option of an enqueue: in a body, in a webhook's query ("" if the query has none), and
// in the job's record.
type enqueueOption struct {
	body, query string
	want        func(j *job.Job)
}

const someParent = "job_0000000000000000000000000G"

var enqueueOptions = []enqueueOption{
	{``, ``, func(*job.Job) {}},
	{`"priority":"critical"`, `priority=critical`, func(j *job.Job) { j.Priority = job.Critical }},
	{`"priority":1`, `priority=1`, func(j *job.Job) { j.Priority = job.High }},
	{`"scheduled_at":"2030-01-02T03:04:05Z"`, `scheduled_at=2030-01-02T03:04:05Z`, func(j *job.Job) {
		j.State, j.ScheduledNs = job.Scheduled, time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano()
	}},
	{`"expire_after":"90s"`, `expire_after=90s`, func(j *job.Job) { j.Opt().ExpireAfterMs, j.Details().ExpireNs = 90_000, int64(90*time.Second) }},
	{`"max_retries":7`, `max_retries=7`, func(j *job.Job) { j.Retry.MaxAttempts = 7 }},
	{`"retry_backoff":"linear"`, `retry_backoff=linear`, func(j *job.Job) { j.Retry.Backoff = job.BackoffLinear }},
	{`"retry_base_delay":"7s"`, `retry_base_delay=7s`, func(j *job.Job) { j.Retry.BaseDelayMs = 7000 }},
	{`"retry_base_delay":"1h"`, `retry_base_delay=1h`, func(j *job.Job) { j.Retry.BaseDelayMs, j.Retry.MaxDelayMs = 3_600_000, 3_600_000 }},
	{`"retry_max_delay":"1h"`, `retry_max_delay=1h`, func(j *job.Job) { j.Retry.MaxDelayMs = 3_600_000 }},
	{`"retry_jitter_percent":100`, `retry_jitter_percent=100`, func(j *job.Job) { j.Retry.JitterPercent = 100 }},
	{`"unique_key":"k"`, `unique_key=k`, func(j *job.Job) {
		j.Opt().UniqueKey, j.Opt().UniquePeriodMs, j.Details().UniqueExpiresNs = "k", 3_600_000, int64(time.Hour)
	}},
	{`"unique_key":"k","unique_period":7,"unique_until":"settled"`, `unique_key=k&unique_period=7&unique_until=settled`, func(j *job.Job) {
		j.Opt().UniqueKey, j.Opt().UniquePeriodMs, j.Details().UniqueExpiresNs = "k", 7000, int64(7*time.Second)
	}},
	{`"unique_key":"k","unique_until":"period"`, `unique_key=k&unique_until=period`, func(j *job.Job) {
		j.Opt().UniqueKey, j.Opt().UniquePeriodMs, j.Details().UniqueExpiresNs, j.Opt().UniqueWholePeriod = "k", 3_600_000, int64(time.Hour), true
	}},
	{`"debounce_key":"d","debounce":"24h"`, `debounce_key=d&debounce=24h`, func(j *job.Job) {
		j.State, j.Opt().DebounceKey, j.Opt().DebounceMs, j.ScheduledNs = job.Scheduled, "d", 86_400_000, int64(24*time.Hour)
	}},
	{`"parent_id":"` + someParent + `"`, `parent_id=` + someParent, func(j *job.Job) {
		id, _ := job.ParseID(someParent)
		j.Opt().ParentId = id[:]
	}},
	{`"tags":{"a":"b:c","d":""}`, `tags=d:&tags=a:b:c`, func(j *job.Job) {
		j.Tags = []*job.Pair{{Name: "a", Value: "b:c"}, {Name: "d"}}
	}},
	{`"headers":{"a":"b"}`, ``, func(j *job.Job) { j.Headers = []*job.Pair{{Name: "a", Value: "b"}} }},
	{`"agent":{"max_iterations":3,"max_cost_usd":0.5,"iteration_timeout":"90s"}`, ``, func(j *job.Job) {
		j.Opt().Agent = &job.AgentConfig{MaxIterations: 3, MaxCostNanoUsd: 500_000_000, IterationTimeoutMs: 90_000}
	}},
	{`"agent":{"iteration_timeout":""}`, ``, func(*job.Job) {}},
	{`"checkpoint":[1]`, ``, func(j *job.Job) { j.Blobs |= 1 << job.Checkpoint }},
}

// Every path of an enqueue sets every option in the same way; relative times count from the job's creation.
func TestEveryPathTakesEveryOption(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for i, o := range enqueueOptions {
		want := &job.Job{State: job.Pending, Priority: job.Normal, Retry: job.NewRetry(), Blobs: 1 << job.Payload}
		o.want(want)
		for path, id := range enqueueByAllPaths(n, i, o) {
			got := n.record(id)
			if string(n.payload(id)) != `{"n":[1]}` {
				t.Errorf("%s, %s: the payload is %s", path, o.body, n.payload(id))
			}
			got.Id, got.Number, got.Queue, got.History = nil, 0, "", nil
			for _, ns := range []*int64{&got.Details().ExpireNs, &got.Details().UniqueExpiresNs} {
				if *ns != 0 {
					*ns -= got.CreatedNs
				}
			}
			if got.Options.GetDebounceKey() != "" {
				got.ScheduledNs -= got.CreatedNs
			}
			got.CreatedNs = 0
			got.Tidy()
			if !proto.Equal(got, want) {
				t.Errorf("%s, %s:\ngot  %v\nwant %v", path, o.body, got, want)
			}
		}
	}
}

// enqueueByAllPaths enqueues a job with an option by each path, each into its own queue, and returns the ids.
func enqueueByAllPaths(n *node, i int, o enqueueOption) map[string]string {
	n.t.Helper()
	ids := map[string]string{}
	made := func(path string, a answer, id string) {
		if a.status != 201 || id == "" {
			n.t.Fatalf("%s, %s: %d %s", path, o.body, a.status, a.body)
		}
		ids[path] = id
	}
	body := func(path string) string {
		all := fmt.Sprintf(`{"queue":"%s%d","payload":{"n":[1]},%s}`, path, i, o.body)
		return strings.Replace(all, ",}", "}", 1)
	}
	var one api.EnqueueResponse
	a := n.send("POST", "/api/v1/enqueue", n.admin, body("single"))
	_ = json.Unmarshal(a.body, &one)
	made("single", a, one.JobID)
	var many api.EnqueueBatchResponse
	a = n.send("POST", "/api/v1/enqueue/batch", n.admin, `{"jobs":[{"queue":"x"},`+body("batch")+`]}`)
	_ = json.Unmarshal(a.body, &many)
	made("batch", a, append(many.JobIDs, "", "")[1])
	if o.query == "" && o.body != "" {
		return ids
	}
	a = n.send("POST", fmt.Sprintf("/api/v1/webhooks/hook%d?%s", i, o.query), n.admin, `{"n":[1]}`)
	one = api.EnqueueResponse{}
	_ = json.Unmarshal(a.body, &one)
	made("webhook", a, one.JobID)
	return ids
}

func (n *node) record(id string) *job.Job {
	n.t.Helper()
	parsed, err := job.ParseID(id)
	if err != nil {
		n.t.Fatal(err)
	}
	j, err := n.cell.State().Job(parsed)
	if err != nil || j == nil {
		n.t.Fatalf("%s: %v, %v", id, j, err)
	}
	return j
}

func (n *node) payload(id string) []byte {
	n.t.Helper()
	parsed, err := job.ParseID(id)
	if err != nil {
		n.t.Fatal(err)
	}
	b, err := n.cell.State().Blob(parsed, job.Payload)
	if err != nil {
		n.t.Fatal(err)
	}
	return b.GetData()
}

// TestDuplicates checks, for each path of an enqueue, that the answer to a duplicate names the existing job
// and has the job's result after the job has completed.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	first, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q", UniqueKey: "k", UniqueUntil: "period"})
	if err != nil || first.UniqueExisting || first.Status != "pending" {
		t.Fatalf("%+v, %v", first, err)
	}
	duplicate := func(result string) string {
		return `{"job_id":"` + first.JobID + `","status":"duplicate","unique_existing":true` + result + `}`
	}
	ask := func(what, want string, status int) {
		t.Helper()
		for path, body := range map[string]string{
			"/api/v1/enqueue":                 `{"queue":"q","unique_key":"k"}`,
			"/api/v1/webhooks/q?unique_key=k": ``,
		} {
			if a := n.send("POST", path, n.admin, body); a.status != status || strings.TrimSpace(string(a.body)) != want {
				t.Errorf("%s, %s: %d %s", what, path, a.status, a.body)
			}
		}
		a := n.send("POST", "/api/v1/enqueue/batch", n.admin, `{"jobs":[{"queue":"q","unique_key":"k"}]}`)
		if all := `{"job_ids":["` + first.JobID + `"],"results":[` + want + `]}`; a.status != status || strings.TrimSpace(string(a.body)) != all {
			t.Errorf("%s, batch: %d %s", what, a.status, a.body)
		}
	}
	ask("while it is pending", duplicate(""), 200)
	got, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"q"}})
	if err != nil {
		t.Fatal(err)
	}
	ask("while it is active", duplicate(""), 200)
	if err := c.Ack(ctx, got.JobID, api.AckRequest{Result: json.RawMessage(`{"n": 7}`)}); err != nil {
		t.Fatal(err)
	}
	ask("when it has completed", duplicate(`,"result":{"n":7}`), 200)

	// The status is 201 if a batch request creates at least one job.
	a := n.send("POST", "/api/v1/enqueue/batch", n.admin, `{"jobs":[{"queue":"q","unique_key":"k"},{"queue":"q"}]}`)
	var many api.EnqueueBatchResponse
	if err := json.Unmarshal(a.body, &many); err != nil {
		t.Fatal(err)
	}
	equal(t, "the status of a batch request for both", a.status, 201)
	equal(t, "its first id", many.JobIDs[0], first.JobID)
	equal(t, "its second job's status", many.Results[1].Status, "pending")

	doc, err := c.Job(ctx, first.JobID, client.Read{})
	if err != nil || *doc.UniqueKey != "k" || *doc.UniquePeriod != 3600 {
		t.Errorf("the job is %+v, %v", doc, err)
	}
}

func TestDebounce(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	first, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q", DebounceKey: "k", Debounce: "1h", Payload: json.RawMessage(`1`), Tags: api.Strings{"v": "1"}})
	if err != nil || first.UniqueExisting || first.Status != "scheduled" {
		t.Fatalf("%+v, %v", first, err)
	}
	before, err := c.Job(ctx, first.JobID, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"job_id":"` + first.JobID + `","status":"debounced","unique_existing":true}`
	for path, body := range map[string]string{
		"/api/v1/enqueue": `{"queue":"q","debounce_key":"k","debounce":"2h","payload":2}`,
		"/api/v1/webhooks/q?" + url.Values{"debounce_key": {"k"}, "debounce": {"2h"}}.Encode(): `2`,
	} {
		if a := n.send("POST", path, n.admin, body); a.status != 200 || strings.TrimSpace(string(a.body)) != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	after, err := c.Job(ctx, first.JobID, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "payload", string(after.Payload), `2`)
	equal(t, "tags", len(after.Tags), 0)
	equal(t, "state", after.State, "scheduled")
	if *after.ScheduledAt <= *before.ScheduledAt {
		t.Errorf("scheduled at %s, was %s", *after.ScheduledAt, *before.ScheduledAt)
	}
}

// A job shows the options of its enqueue.
func TestAJobShowsItsEnqueue(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	made, err := c.Enqueue(ctx, api.EnqueueRequest{
		Queue: "q", UniqueKey: "k", UniquePeriod: 90, ExpireAfter: "90m", ParentID: someParent,
	})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := c.Job(ctx, made.JobID, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	created, _, err := doc.CreatedAt.Parse()
	if err != nil {
		t.Fatal(err)
	}
	wantFields(t, "a job with options", doc, func(want *api.Job) {
		want.UniqueKey, want.UniquePeriod, want.ExpireAfter, want.ParentID = ptr("k"), ptr(int64(90)), ptr(api.Duration("1h30m0s")), ptr(someParent)
		want.ExpireAt, want.HoldReason = ptr(api.TimeOf(created.Add(90*time.Minute))), nil
	})
	plain, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = c.Job(ctx, plain.JobID, client.Read{}); err != nil {
		t.Fatal(err)
	}
	wantFields(t, "a plain job", doc, func(want *api.Job) {
		want.UniqueKey, want.UniquePeriod, want.ExpireAfter, want.ExpireAt, want.ParentID = nil, nil, nil, nil, nil
	})
}
