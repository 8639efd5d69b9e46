package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server"
)

type refusalCase struct {
	name, method, path, body string
	status                   int
	code                     api.Code
	fields                   string
}

// Every refusal has its documented status and code, names the fault, and leaves the store unchanged.
func TestRefusals(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.MaxPayload = 1000 })
	active := n.one(n.client(n.admin), "q")
	stale := strings.Repeat("ab", 16)
	cases := append(refusedEnqueues(), refusedWork(active.JobID, stale)...)
	cases = append(cases, refusedManagement()...)
	cases = append(cases, refusedBatches()...)
	before := n.dump()
	for _, c := range cases {
		a := n.send(c.method, c.path, n.admin, c.body)
		p := a.problem(t)
		if a.status != c.status || p.Code != c.code || p.Error == "" {
			t.Errorf("%s: %s %s %.100s: %d %s", c.name, c.method, c.path, c.body, a.status, a.body)
		} else if got := p.fields(t); got != c.fields {
			t.Errorf("%s: details name %q, want %q", c.name, got, c.fields)
		}
		if a.header.Get("X-Request-Id") == "" || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: headers %v", c.name, a.header)
		}
	}
	n.same(before)
}

func refusedEnqueues() []refusalCase {
	enqueue := func(name, body string, status int, code api.Code, fields string) refusalCase {
		return refusalCase{name, "POST", "/api/v1/enqueue", body, status, code, fields}
	}
	invalid := func(body, fields string) refusalCase {
		return enqueue("invalid "+fields, body, 400, api.ValidationError, fields)
	}
	long := strings.Repeat("x", 129)
	return []refusalCase{
		enqueue("not JSON", `{"queue":`, 400, api.ParseError, ""),
		enqueue("two values", `{"queue":"q"} {}`, 400, api.ParseError, ""),
		enqueue("not UTF-8", "{\"queue\":\"q\",\"payload\":\"\xff\"}", 400, api.ParseError, ""),
		enqueue("not an object", `[]`, 400, api.ValidationError, "body"),
		invalid(``, "queue"),
		invalid(`{}`, "queue"),
		invalid(`{"queue":null}`, "queue"),
		invalid(`{"queue":7}`, "queue"),
		invalid(`{"queue":"`+long+`"}`, "queue"),
		invalid(`{"queue":"a b"}`, "queue"),
		invalid(`{"queue":"a/b"}`, "queue"),
		invalid(`{"queue":"q","priority":"urgent"}`, "priority"),
		invalid(`{"queue":"q","priority":3}`, "priority"),
		invalid(`{"queue":"q","priority":-1}`, "priority"),
		invalid(`{"queue":"q","priority":{}}`, "priority"),
		invalid(`{"queue":"q","max_retries":0}`, "max_retries"),
		invalid(`{"queue":"q","max_retries":1001}`, "max_retries"),
		invalid(`{"queue":"q","max_retries":"3"}`, "max_retries"),
		invalid(`{"queue":"q","retry_backoff":"random"}`, "retry_backoff"),
		invalid(`{"queue":"q","retry_base_delay":"5"}`, "retry_base_delay"),
		invalid(`{"queue":"q","retry_base_delay":5}`, "retry_base_delay"),
		invalid(`{"queue":"q","retry_base_delay":"-5s"}`, "retry_base_delay"),
		invalid(`{"queue":"q","retry_base_delay":"1us"}`, "retry_base_delay"),
		invalid(`{"queue":"q","retry_max_delay":"8761h"}`, "retry_max_delay"),
		invalid(`{"queue":"q","retry_base_delay":"10s","retry_max_delay":"5s"}`, "retry_max_delay"),
		invalid(`{"queue":"q","scheduled_at":"tomorrow"}`, "scheduled_at"),
		invalid(`{"queue":"q","scheduled_at":"9999-12-31T23:59:59Z"}`, "scheduled_at"),
		invalid(`{"queue":"q","tags":["a"]}`, "tags"),
		invalid(`{"queue":"q","tags":{"a":1}}`, "tags.a"),
		invalid(`{"queue":"q","tags":{"":"x"}}`, "tags"),
		invalid(`{"queue":"q","tags":{"`+long+`":"x"}}`, "tags"),
		invalid(`{"queue":"q","tags":{"a":"`+strings.Repeat("x", 1025)+`"}}`, "tags"),
		invalid(`{"queue":"q","headers":{"a":"`+strings.Repeat("x", 4097)+`"}}`, "headers"),
		invalid(`{"queue":"q","headers":{`+members(65)+`}}`, "headers"),
		invalid(`{"queue":"","priority":"x","max_retries":-1,"retry_backoff":"y","scheduled_at":"z"}`, "max_retries priority queue retry_backoff scheduled_at"),
		enqueue("payload over its bound", `{"queue":"q","payload":"`+strings.Repeat("x", 999)+`"}`, 413, api.PayloadTooLarge, "payload"),
		enqueue("checkpoint over its bound", `{"queue":"q","checkpoint":"`+strings.Repeat("x", job.MaxCheckpoint)+`"}`, 413, api.PayloadTooLarge, "checkpoint"),
		enqueue("body over its bound", `{"queue":"q","x":"`+strings.Repeat("x", 4<<20)+`"}`, 413, api.PayloadTooLarge, ""),
		invalid(`{"queue":"q","agent":{"max_iterations":10001,"max_cost_usd":-1,"iteration_timeout":"25h"}}`, "agent agent.iteration_timeout agent.max_iterations"),
		{"no jobs", "POST", "/api/v1/enqueue/batch", `{"jobs":[]}`, 400, api.ValidationError, "jobs"},
		{"a job too many", "POST", "/api/v1/enqueue/batch", `{"jobs":[` + strings.Repeat(`{"queue":"q"},`, job.MaxEnqueueJobs) + `{"queue":"q"}]}`, 400, api.ValidationError, "jobs"},
		{"one bad job", "POST", "/api/v1/enqueue/batch", `{"jobs":[{"queue":"q"},{"queue":"!"},{"queue":"q","priority":9}]}`, 400, api.ValidationError, "jobs[1].queue jobs[2].priority"},
	}
}

// members returns n members of an object of strings.
func members(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"h%d":"v"`, i)
	}
	return strings.Join(list, ",")
}

func refusedWork(active, stale string) []refusalCase {
	const nobody = "job_00000000000000000000000000"
	queues := make([]string, job.MaxFetchQueues+1)
	for i := range queues {
		queues[i] = fmt.Sprintf(`"q%d"`, i)
	}
	post := func(name, path, body string, status int, code api.Code, fields string) refusalCase {
		return refusalCase{name, "POST", "/api/v1/" + path, body, status, code, fields}
	}
	return []refusalCase{
		post("fetch from nowhere", "fetch", `{}`, 400, api.ValidationError, "queues"),
		post("fetch from a bad name", "fetch", `{"queues":["q",null,"a b"]}`, 400, api.ValidationError, "queues[1] queues[2]"),
		post("fetch from too many", "fetch", `{"queues":[`+strings.Join(queues, ",")+`]}`, 400, api.ValidationError, "queues"),
		post("fetch before now", "fetch", `{"queues":["q"],"timeout":-1,"lease_duration":-1}`, 400, api.ValidationError, "lease_duration timeout"),
		post("a lease too long", "fetch", `{"queues":["q"],"lease_duration":86401}`, 400, api.ValidationError, "lease_duration"),
		post("a name too long", "fetch", `{"queues":["q"],"worker_id":"`+strings.Repeat("w", 257)+`"}`, 400, api.ValidationError, "worker_id"),
		post("fetch none", "fetch/batch", `{"queues":["q"],"count":0}`, 400, api.ValidationError, "count"),

		post("ack of no id", "ack/nonsense", ``, 404, api.NotFound, ""),
		post("ack of no job", "ack/"+nobody, ``, 404, api.NotFound, ""),
		post("ack by a stale token", "ack/"+active, `{"lease_token":"`+stale+`"}`, 409, api.LeaseLost, ""),
		post("ack by another worker", "ack/"+active, `{"worker_id":"w2"}`, 409, api.LeaseLost, ""),
		post("ack by no token", "ack/"+active, `{"lease_token":"xyz"}`, 400, api.ValidationError, "lease_token"),
		post("ack with a result too large", "ack/"+active, `{"result":"`+strings.Repeat("x", job.MaxResult)+`"}`, 413, api.PayloadTooLarge, "result"),
		post("ack with an agent that says what is not", "ack/"+active, `{"agent_status":"later","hold_reason":"r"}`, 400, api.ValidationError, "agent_status hold_reason"),
		post("ack with a reason too long", "ack/"+active, `{"agent_status":"hold","hold_reason":"`+strings.Repeat("r", job.MaxHoldReason+1)+`"}`, 400, api.ValidationError, "hold_reason"),
		post("ack with a trace too large", "ack/"+active, `{"trace":"`+strings.Repeat("t", job.MaxTrace)+`"}`, 413, api.PayloadTooLarge, "trace"),
		post("ack that goes on and ends its chain", "ack/"+active, `{"agent_status":"continue","step_status":"exit"}`, 400, api.ValidationError, "step_status"),
		post("an ack too many", "ack/batch", `{"acks":[`+strings.Repeat(`{},`, job.MaxAckItems)+`{}]}`, 400, api.ValidationError, "acks"),

		post("fail of no job", "fail/"+nobody, ``, 404, api.NotFound, ""),
		post("fail by a stale token", "fail/"+active, `{"lease_token":"`+stale+`"}`, 409, api.LeaseLost, ""),
		post("an error too long", "fail/"+active, `{"error":"`+strings.Repeat("e", job.MaxErrorText+1)+`"}`, 413, api.PayloadTooLarge, "error"),
		post("a backtrace too long", "fail/"+active, `{"backtrace":"`+strings.Repeat("e", job.MaxBacktrace+1)+`"}`, 413, api.PayloadTooLarge, "backtrace"),

		post("progress too large", "heartbeat", `{"jobs":{"`+active+`":{"progress":"`+strings.Repeat("p", job.MaxProgress)+`"}}}`, 413, api.PayloadTooLarge, "jobs."+active+".progress"),
		post("a heartbeat for a list", "heartbeat", `{"jobs":[]}`, 400, api.ValidationError, "jobs"),
	}
}

func refusedManagement() []refusalCase {
	return []refusalCase{
		{"no job", "GET", "/api/v1/jobs/job_00000000000000000000000000", "", 404, api.NotFound, ""},
		{"no id", "GET", "/api/v1/jobs/7", "", 404, api.NotFound, ""},
		{"search by a word unknown", "POST", "/api/v1/jobs/search", `{"state":["dead","gone"],"sort":"name","order":"up","limit":0}`, 400, api.ValidationError, "limit order sort state[1]"},
		{"search a page too long", "POST", "/api/v1/jobs/search", `{"limit":1001}`, 400, api.ValidationError, "limit"},
		{"search by a cursor made up", "POST", "/api/v1/jobs/search", `{"cursor":"eyJvZmZzZXQiOjUwfQ=="}`, 400, api.ValidationError, ""},
		{"search by a field unknown", "POST", "/api/v1/jobs/search", `{"quue":"q"}`, 400, api.ValidationError, "quue"},
		{"a consistency unknown", "GET", "/api/v1/queues?consistency=some", "", 400, api.ValidationError, ""},
		{"an index made up", "GET", "/api/v1/queues?min_index=7", "", 400, api.ValidationError, ""},
		{"no queue", "GET", "/api/v1/queues/unknown", "", 404, api.NotFound, ""},
		{"a queue that cannot be", "POST", "/api/v1/queues/a%20b/pause", "", 400, api.ValidationError, ""},
		{"no limit", "POST", "/api/v1/queues/q/concurrency", `{}`, 400, api.ValidationError, "max"},
		{"less than nothing", "POST", "/api/v1/queues/q/concurrency", `{"max":-1}`, 400, api.ValidationError, "max"},
		{"more than may be", "POST", "/api/v1/queues/q/concurrency", `{"max":1000001}`, 400, api.ValidationError, "max"},
		{"a setting unknown", "POST", "/api/v1/queues/q/concurrency", `{"max":1,"min":1}`, 400, api.ValidationError, "min"},
		{"a key of nonsense", "POST", "/api/v1/auth/keys", `{"name":"` + strings.Repeat("n", 129) + `","roles":["root"],"queue_scope":["a/b"],"expires_at":"2001-01-01T00:00:00Z"}`, 400, api.ValidationError, "expires_at name queue_scope[0] roles[0]"},
		{"a provider without a name", "POST", "/api/v1/providers", `{}`, 400, api.ValidationError, "name"},
		{"a role without a name", "POST", "/api/v1/auth/roles", `{"permissions":["job.read"]}`, 400, api.ValidationError, "name"},
		{"a role of a name too long", "POST", "/api/v1/auth/roles", `{"name":"` + strings.Repeat("n", 2000) + `","permissions":["job.read"]}`, 400, api.ValidationError, "name"},
		{"no key", "GET", "/api/v1/auth/keys/nobody", "", 404, api.NotFound, ""},
		{"no key to revoke", "DELETE", "/api/v1/auth/keys/nobody", "", 404, api.NotFound, ""},
		{"no route", "GET", "/api/v1/nothing", "", 404, api.NotFound, ""},
		{"no method", "PATCH", "/api/v1/enqueue", "", 405, api.MethodNotAllowed, ""},
		{"a route that is a command", "POST", "/api/v1/admin/restore", "{}", 501, api.Unsupported, ""},
	}
}

// Values at their bounds are accepted, and empty values count as absent.
func TestAccepted(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.MaxPayload = 1000 })
	for _, body := range []string{
		`{"queue":"` + strings.Repeat("Az09._:-", 16) + `"}`,
		`{"queue":"q","payload":"` + strings.Repeat("x", 998) + `"}`,
		`{"queue":"q","checkpoint":"` + strings.Repeat("x", job.MaxCheckpoint-2) + `"}`,
		`{"queue":"q","max_retries":1000,"retry_base_delay":"8760h"}`,
		`{"queue":"q","tags":{"` + strings.Repeat("x", 128) + `":"` + strings.Repeat("x", 1024) + `"},"headers":{` + members(64) + `}}`,
		`{"queue":"q","priority":0}`, `{"queue":"q","priority":"critical"}`,
		`{"queue":"q","scheduled_at":"1969-07-20T20:17:40Z"}`,
		`{"queue":"q","payload":null,"priority":null,"max_retries":null,"tags":{"a":null},"headers":null,"scheduled_at":"","retry_backoff":"","retry_base_delay":"","retry_max_delay":null}`,
		`{"queue":"q","unique_key":"","unique_period":0,"chain":null,"depends_on":[],"agent":{"max_iterations":0,"max_cost_usd":null},"chain":{"steps":[]}}`,
		`{"queue":"q","field_of_a_newer_client":1}`,
	} {
		if a := n.send("POST", "/api/v1/enqueue", n.admin, body); a.status != 201 {
			t.Errorf("%.120s: %d %s", body, a.status, a.body)
		}
	}
	if a := n.send("POST", "/api/v1/enqueue/batch", n.admin, `{"jobs":[`+strings.Repeat(`{"queue":"q"},`, job.MaxEnqueueJobs-1)+`{"queue":"q"}],"batch":{}}`); a.status != 201 {
		t.Errorf("the largest batch: %d %s", a.status, a.body)
	}
	got, err := n.client(n.admin).FetchBatch(context.Background(), api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"q"}}, Count: ptr(job.MaxFetchJobs + 1)})
	if err != nil || len(got) != job.MaxFetchJobs {
		t.Errorf("fetched %d jobs, %v", len(got), err)
	}
}

// Unknown jobs in a heartbeat, and jobs that the worker has lost, do not affect the others.
func TestHeartbeatSorts(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	held, lost := n.one(c, "a"), n.one(c, "b")
	if err := c.Ack(ctx, lost.JobID, api.AckRequest{}); err != nil {
		t.Fatal(err)
	}
	const nobody = "job_00000000000000000000000000"
	got, err := c.Heartbeat(ctx, api.HeartbeatRequest{Jobs: map[string]*api.HeartbeatJob{
		held.JobID: {LeaseToken: held.LeaseToken}, lost.JobID: {LeaseToken: lost.LeaseToken}, nobody: {}, "nonsense": {},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := api.HeartbeatResponse{
		Jobs:  map[string]api.HeartbeatStatus{held.JobID: {Status: "ok"}, lost.JobID: {Status: "cancel"}, nobody: {Status: "cancel"}, "nonsense": {Status: "cancel"}},
		Acked: []string{held.JobID}, Unknown: []string{nobody, "nonsense"}, Canceled: []string{lost.JobID},
	}
	equal(t, "the answer", got, want)
	if a := n.send("POST", "/api/v1/heartbeat", n.admin, ``); a.status != 200 || string(a.body) != `{"jobs":{},"acked":[],"unknown":[],"canceled":[]}`+"\n" {
		t.Errorf("a heartbeat for nothing: %d %s", a.status, a.body)
	}
}
