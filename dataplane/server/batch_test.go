package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// The rows for batches in the tables of rules for every route.
func init() {
	shapes["GET /api/v1/batches/{id}"] = []string{""}
	shapes["POST /api/v1/batches/{id}/jobs"] = []string{`{"jobs":[{"queue":"own"}]}`, `{"jobs":[{"queue":V}]}`}
	shapes["POST /api/v1/batches/{id}/seal"] = []string{""}
	shapes["POST /api/v1/enqueue/batch"] = append(shapes["POST /api/v1/enqueue/batch"],
		`{"jobs":[{"queue":"own"}],"batch":{"callback_queue":V,"callback_payload":V,"parent_id":V}}`,
		`{"jobs":[{"queue":"own"}],"batch":{"parent_id":V}}`)
	const nobody = "/api/v1/batches/" + noSuchBatch
	for route, path := range map[string]string{
		"GET /api/v1/batches/{id}": nobody, "POST /api/v1/batches/{id}/jobs": nobody + "/jobs", "POST /api/v1/batches/{id}/seal": nobody + "/seal",
	} {
		row := scoped[route]
		row.path, row.body, row.status = path, `{"jobs":[{"queue":"mine.a"}]}`, 404
		scoped[route] = row
	}
}

const noSuchBatch = "batch_00000000000000000000000000"

// refusedBatches returns requests with an invalid batch.
func refusedBatches() []refusalCase {
	with := func(name, batch string, status int, code api.Code, fields string) refusalCase {
		return refusalCase{name, "POST", "/api/v1/enqueue/batch", `{"jobs":[{"queue":"q"}],"batch":` + batch + `}`, status, code, fields}
	}
	payload := func(n int) string { return `{"x":"` + strings.Repeat("x", n-len(`{"x":""}`)) + `"}` }
	to := func(name, path, body string, status int, code api.Code, fields string) refusalCase {
		return refusalCase{name, "POST", "/api/v1/batches/" + path, body, status, code, fields}
	}
	return []refusalCase{
		with("a callback queue of nonsense", `{"callback_queue":"a/b"}`, 400, api.ValidationError, "batch.callback_queue"),
		with("a callback payload that is no object", `{"callback_queue":"c","callback_payload":[1]}`, 400, api.ValidationError, "batch.callback_payload"),
		with("a callback payload for nobody", `{"callback_payload":{}}`, 400, api.ValidationError, "batch.callback_payload"),
		with("a callback payload over its bound", `{"callback_queue":"c","callback_payload":`+payload(job.MaxBatchPayload+1)+`}`, 413, api.PayloadTooLarge, "batch.callback_payload"),
		with("a parent that is no batch", `{"parent_id":"job_00000000000000000000000000"}`, 400, api.ValidationError, "batch.parent_id"),
		with("a parent that is not there", `{"parent_id":"`+noSuchBatch+`"}`, 404, api.NotFound, ""),
		with("a batch of the wrong type", `7`, 400, api.ValidationError, "batch"),
		to("a batch that is not there", noSuchBatch+"/jobs", `{"jobs":[{"queue":"q"}]}`, 404, api.NotFound, ""),
		to("an id that is none", "job_00000000000000000000000000/jobs", `{"jobs":[{"queue":"q"}]}`, 404, api.NotFound, ""),
		to("no jobs to add", noSuchBatch+"/jobs", `{"jobs":[]}`, 400, api.ValidationError, "jobs"),
		to("a batch in a batch", noSuchBatch+"/jobs", `{"jobs":[{"queue":"q"}],"batch":{}}`, 400, api.ValidationError, "batch"),
		to("a seal of none", noSuchBatch+"/seal", ``, 404, api.NotFound, ""),
		{"a batch that is not there", "GET", "/api/v1/batches/" + noSuchBatch, "", 404, api.NotFound, ""},
	}
}

// A callback's payload is accepted up to its bound.
func TestBatchPayloadBound(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	payload := `{"x":"` + strings.Repeat("x", job.MaxBatchPayload-len(`{"x":""}`)) + `"}`
	var made api.EnqueueBatchResponse
	n.do("POST", "/api/v1/enqueue/batch", `{"jobs":[{"queue":"q"}],"batch":{"callback_queue":"c","callback_payload":`+payload+`}}`, 201, &made)
	if got := n.batch(made.BatchID); string(got.CallbackPayload) != payload {
		t.Errorf("the payload has %d bytes, want %d", len(got.CallbackPayload), len(payload))
	}
}

func (n *node) batch(id string) (b api.Batch) {
	n.t.Helper()
	n.do("GET", "/api/v1/batches/"+id, "", 200, &b)
	return b
}

// settle fetches the jobs of a queue, fails the first and acks the others.
func (n *node) settle(queue string) {
	n.t.Helper()
	var got api.FetchBatchResponse
	n.do("POST", "/api/v1/fetch/batch", fmt.Sprintf(`{"queues":[%q],"count":100,"timeout":0}`, queue), 200, &got)
	var acks []string
	for i, j := range got.Jobs {
		if i == 0 {
			n.do("POST", "/api/v1/fail/"+j.JobID, fmt.Sprintf(`{"error":"no","lease_token":%q}`, j.LeaseToken), 200, nil)
			continue
		}
		acks = append(acks, fmt.Sprintf(`{"job_id":%q,"lease_token":%q}`, j.JobID, j.LeaseToken))
	}
	var done api.AckBatchResponse
	n.do("POST", "/api/v1/ack/batch", `{"acks":[`+strings.Join(acks, ",")+`]}`, 200, &done)
	if done.Acked != len(acks) {
		n.t.Fatalf("acked %+v of %d", done, len(acks))
	}
}

// An open batch runs to its callback, whose queue may lie on another shard.
func TestBatchOverShards(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			queue, done := onShard(shards-1, shards, 0), onShard(0, shards, 1)
			one := fmt.Sprintf(`{"queue":%q,"max_retries":1}`, queue)
			var made, more api.EnqueueBatchResponse
			n.do("POST", "/api/v1/enqueue/batch", fmt.Sprintf(`{"jobs":[%s,%s],"batch":{"callback_queue":%q,"callback_payload":{"report":7},"open":true}}`, one, one, done), 201, &made)
			id := made.BatchID
			want := api.Batch{
				ID: id, Status: api.BatchOpen, Open: true, Total: 2, Pending: 2,
				CallbackQueue: &done, CallbackPayload: json.RawMessage(`{"report":7}`), CreatedAt: n.batch(id).CreatedAt,
			}
			equal(t, "the open batch", n.batch(id), want)
			if !strings.HasPrefix(id, job.BatchIDPrefix) {
				t.Errorf("its id is %s", id)
			}
			n.do("POST", "/api/v1/batches/"+id+"/jobs", fmt.Sprintf(`{"jobs":[%s]}`, one), 201, &more)
			if more.BatchID != id || len(more.JobIDs) != 1 || len(more.Results) != 1 {
				t.Errorf("added %+v", more)
			}
			n.settle(queue)
			want.Total, want.Pending, want.Failed, want.Succeeded = 3, 0, 1, 2
			equal(t, "the batch after its jobs have settled", n.batch(strings.ToLower(id)), want)
			var sealed, again api.Batch
			n.do("POST", "/api/v1/batches/"+id+"/seal", "", 200, &sealed)
			n.do("POST", "/api/v1/batches/"+id+"/seal", "", 200, &again)
			equal(t, "the second seal's answer", again, sealed)
			equal(t, "the sealed batch", n.batch(id), sealed)
			equal(t, "status", sealed.Status, api.BatchCompleted)
			present(t, "completed_at", sealed.CompletedAt)
			present(t, "callback_job_id", sealed.CallbackJobID)
			var callback api.FetchedJob
			n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q],"timeout":60}`, done), 200, &callback)
			if callback.JobID != *sealed.CallbackJobID || !strings.Contains(string(callback.Payload), `"report":7`) {
				t.Errorf("the callback is %+v", callback)
			}
			if p := n.do("POST", "/api/v1/batches/"+id+"/jobs", fmt.Sprintf(`{"jobs":[%s]}`, one), 409, nil).problem(t); p.Code != api.StateConflict {
				t.Errorf("added to a sealed batch: %+v", p)
			}
		})
	}
}

// A batch lies on one shard, with its jobs and its parent batch.
func TestBatchesAreOfOneShard(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	here, there := onShard(0, 2, 0), onShard(1, 2, 0)
	var made api.EnqueueBatchResponse
	n.do("POST", "/api/v1/enqueue/batch", fmt.Sprintf(`{"jobs":[{"queue":%q}],"batch":{"open":true}}`, here), 201, &made)
	for path, body := range map[string]string{
		"/api/v1/enqueue/batch":                     fmt.Sprintf(`{"jobs":[{"queue":%q},{"queue":%q}],"batch":{}}`, here, there),
		"/api/v1/batches/" + made.BatchID + "/jobs": fmt.Sprintf(`{"jobs":[{"queue":%q},{"queue":%q}]}`, here, there),
		"/api/v1/enqueue/batch?nested":              fmt.Sprintf(`{"jobs":[{"queue":%q}],"batch":{"parent_id":%q}}`, there, made.BatchID),
	} {
		if p := n.do("POST", path, body, 422, nil).problem(t); p.Code != api.CrossShard || !strings.Contains(p.Error, "shard") {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if got := n.batch(made.BatchID); got.Total != 1 {
		t.Errorf("refused, they left %+v", got)
	}
	var inner api.EnqueueBatchResponse
	n.do("POST", "/api/v1/enqueue/batch", fmt.Sprintf(`{"jobs":[{"queue":%q}],"batch":{"parent_id":%q}}`, here, made.BatchID), 201, &inner)
	nested := n.batch(inner.BatchID)
	equal(t, "parent_id", nested.ParentID, &made.BatchID)
	equal(t, "status", nested.Status, api.BatchRunning)
	equal(t, "the parent's total", n.batch(made.BatchID).Total, 2)
}

// Requests with the same key create a batch once, and add to it once.
func TestBatchIdempotency(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	queue := onShard(1, 2, 0)
	var ids [2]string
	for i := range ids {
		var made api.EnqueueBatchResponse
		n.do("POST", "/api/v1/enqueue/batch", fmt.Sprintf(`{"jobs":[{"queue":%q}],"batch":{"open":true}}`, queue), 201, &made, "Idempotency-Key: make")
		n.do("POST", "/api/v1/batches/"+made.BatchID+"/jobs", fmt.Sprintf(`{"jobs":[{"queue":%q}]}`, queue), 201, nil, "Idempotency-Key: add")
		n.do("POST", "/api/v1/batches/"+made.BatchID+"/seal", "", 200, nil, "Idempotency-Key: seal")
		ids[i] = made.BatchID
	}
	if got := n.batch(ids[0]); ids[0] != ids[1] || got.Total != 2 || got.Open {
		t.Errorf("made %v: %+v", ids, got)
	}
}

// TestBatchScope checks that a batch belongs to its callback's queue or, without a callback, to the queue of
// its first job. A key for other queues gets NOT_FOUND.
func TestBatchScope(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	mine := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"mine.*"}})
	make := func(key, batch, queue string, status int) string {
		a := n.send("POST", "/api/v1/enqueue/batch", key, fmt.Sprintf(`{"jobs":[{"queue":%q}],"batch":%s}`, queue, batch))
		var made api.EnqueueBatchResponse
		if err := json.Unmarshal(a.body, &made); err != nil || a.status != status {
			t.Fatalf("%s in %s: %d %s", batch, queue, a.status, a.body)
		}
		return made.BatchID
	}
	for _, c := range []struct {
		id   string
		sees bool
	}{
		{make(n.admin, `{"open":true,"callback_queue":"mine.done"}`, "theirs", 201), true},
		{make(n.admin, `{"open":true,"callback_queue":"theirs"}`, "mine.a", 201), false},
		{make(n.admin, `{"open":true}`, "mine.a", 201), true},
		{make(n.admin, `{"open":true}`, "theirs", 201), false},
		{make(mine, `{"open":true,"callback_queue":"mine.done"}`, "mine.a", 201), true},
		{make(mine, `{"open":true}`, "mine.a", 201), true},
	} {
		nested := map[bool]int{true: 201, false: 404}[c.sees]
		make(mine, fmt.Sprintf(`{"parent_id":%q}`, c.id), "mine.a", nested)
		for _, ask := range []struct {
			method, path, body string
			status             int
		}{
			{"GET", "", "", 200},
			{"POST", "/jobs", `{"jobs":[{"queue":"mine.b"}]}`, 201},
			{"POST", "/seal", "", 200},
		} {
			if !c.sees {
				ask.status = 404
			}
			if a := n.send(ask.method, "/api/v1/batches/"+c.id+ask.path, mine, ask.body); a.status != ask.status {
				t.Errorf("%s %s of a batch it sees (%v): %d %s", ask.method, ask.path, c.sees, a.status, a.body)
			}
		}
	}
	open := make(n.admin, `{"open":true}`, "mine.a", 201)
	for path, body := range map[string]string{
		"/enqueue/batch":             `{"jobs":[{"queue":"mine.a"}],"batch":{"callback_queue":"theirs"}}`,
		"/batches/" + open + "/jobs": `{"jobs":[{"queue":"theirs"}]}`,
	} {
		if a := n.send("POST", "/api/v1"+path, mine, body); a.status != 403 {
			t.Errorf("%s with a queue of others: %d %s", path, a.status, a.body)
		}
	}
}

// TestBatchEventsAreOfTheBatchsQueue checks that the event of a batch's end names the queue to which the
// batch belongs. Scopes of keys and filters of queues select the event by that queue.
func TestBatchEventsAreOfTheBatchsQueue(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	mine := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine.*"}})
	scoped := n.follow(mine, "?types=batch_completed").begun()
	filtered := n.follow(n.admin, "?types=batch_completed&queues=mine.done,mine.last").begun()
	all := n.follow(n.admin, "?types=batch_completed").begun()
	ends := func(batch, queue string, sees bool) {
		t.Helper()
		var made api.EnqueueBatchResponse
		a := n.send("POST", "/api/v1/enqueue/batch", n.admin, fmt.Sprintf(`{"jobs":[{"queue":%q}],"batch":%s}`, queue, batch))
		if err := json.Unmarshal(a.body, &made); err != nil || a.status != 201 {
			t.Fatalf("the batch %s of %s: %d %s", batch, queue, a.status, a.body)
		}
		status := map[bool]int{true: 200, false: 404}[sees]
		if a := n.send("GET", "/api/v1/batches/"+made.BatchID, mine, ""); a.status != status {
			t.Errorf("GET of the batch %s of %s: %d %s, want %d", batch, queue, a.status, a.body, status)
		}
		if _, err := n.client(n.admin).Cancel(t.Context(), made.JobIDs[0]); err != nil {
			t.Fatal(err)
		}
	}
	ends(`{"callback_queue":"mine.done"}`, "theirs", true)
	ends(`{"callback_queue":"theirs"}`, "mine.done", false)
	ends(`{}`, "mine.a", true)
	ends(`{}`, "theirs", false)
	ends(`{}`, "mine.last", true)
	scoped.wants("batch_completed mine.done", "batch_completed mine.a", "batch_completed mine.last")
	filtered.wants("batch_completed mine.done", "batch_completed mine.last")
	all.wants("batch_completed mine.done", "batch_completed theirs", "batch_completed mine.a", "batch_completed theirs", "batch_completed mine.last")
}
