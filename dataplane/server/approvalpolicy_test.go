package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// The expected answers to a key for other queues, and the bodies of attacks.
func init() {
	const body = `{"name":"n","queue":"theirs"}`
	for method, status := range map[string]int{"GET": http.StatusNotFound, "PUT": http.StatusNotFound, "DELETE": http.StatusNotFound} {
		route := method + " /api/v1/approval-policies/{id}"
		c := scoped[route]
		c.path, c.status = "/api/v1/approval-policies/pol_none", status
		if method == "PUT" {
			c.body = body
		}
		scoped[route] = c
	}
	c := scoped["POST /api/v1/approval-policies"]
	c.body, c.status = body, http.StatusForbidden
	scoped["POST /api/v1/approval-policies"] = c
	c = scoped["GET /api/v1/approval-policies"]
	c.status = http.StatusOK
	scoped["GET /api/v1/approval-policies"] = c
	shapes["POST /api/v1/approval-policies"] = []string{`{"name":V,"queue":V,"tag_key":V,"tag_value":V,"mode":V}`}
	shapes["PUT /api/v1/approval-policies/{id}"] = []string{body}
}

// A policy holds the jobs that it matches until a person approves them, with or without changes.
func TestApprovals(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.Dev = true })
	var p api.ApprovalPolicy
	n.do("POST", "/api/v1/approval-policies", `{"name":"review","queue":"q","cost_usd_gt":0.25,"agent_iteration_gt":0}`, 201, &p)
	if !strings.HasPrefix(p.ID, "pol_") {
		t.Errorf("its id is %s", p.ID)
	}
	wantFields(t, "the created policy", p, func(want *api.ApprovalPolicy) {
		want.Mode, want.Enabled, want.Queue, want.TagKey = "any", true, ptr("q"), nil
		want.CostUSDGt, want.AgentIterationGt = ptr(money.Dollar/4), ptr(0)
	})
	id := n.enqueued(`{"queue":"q","payload":1}`)
	n.do("POST", "/api/v1/fetch/batch", `{"queues":["q"],"timeout":0}`, 200, &api.FetchBatchResponse{})
	var j api.Job
	n.do("GET", "/api/v1/jobs/"+id, "", 200, &j)
	if j.State != "held" || !strings.Contains(*j.HoldReason, `"review"`) {
		t.Fatalf("it is %s: %v", j.State, j.HoldReason)
	}
	for body, code := range map[string]api.Code{
		`{"agent":{"max_iterations":3}}`:                      api.StateConflict,
		`{"agent":{"max_iterations":-1}}`:                     api.ValidationError,
		`{"agent":{"max_cost_usd":"-1"}}`:                     api.ValidationError,
		`{"checkpoint":"` + strings.Repeat("a", 1<<20) + `"}`: api.PayloadTooLarge,
	} {
		if got := n.send("POST", "/api/v1/jobs/"+id+"/approve", n.admin, body).problem(t); got.Code != code {
			t.Errorf("%.40s: %+v", body, got)
		}
	}
	var status api.Status
	n.do("POST", "/api/v1/jobs/"+id+"/approve", `{"payload":{"a":2},"checkpoint":[3]}`, 200, &status)
	got := n.nextOf("q")
	equal(t, "the approved job's status", status.Status, "pending")
	wantFields(t, "the approved job", got, func(want *api.FetchedJob) {
		want.JobID, want.Payload, want.Checkpoint = id, json.RawMessage(`{"a":2}`), json.RawMessage(`[3]`)
	})
	var found api.SearchResponse
	n.do("POST", "/api/v1/jobs/search", `{"queue":"q"}`, 200, &found)
	if len(found.Jobs) != 1 || string(found.Jobs[0].Payload) != `{"a":2}` {
		t.Errorf("a search finds %+v", found.Jobs)
	}
	for body, code := range map[string]api.Code{
		`{"name":"review","queue":"r"}`:                           api.Conflict,
		`{"name":"empty"}`:                                        api.ValidationError,
		`{"name":"m","queue":"q","mode":"some"}`:                  api.ValidationError,
		`{"name":"c","cost_usd_gt":-1}`:                           api.ValidationError,
		`{"name":"` + strings.Repeat("n", 129) + `","queue":"q"}`: api.ValidationError,
	} {
		if got := n.send("POST", "/api/v1/approval-policies", n.admin, body).problem(t); got.Code != code {
			t.Errorf("%.40s: %+v", body, got)
		}
	}
	n.do("PUT", "/api/v1/approval-policies/"+p.ID, `{"name":"review","queue":"q","mode":"all","enabled":false}`, 200, &p)
	if p.Mode != "all" || p.Enabled || p.CostUSDGt != nil {
		t.Errorf("replaced %+v", p)
	}
	n.do("DELETE", "/api/v1/approval-policies/"+p.ID, "", 200, &status)
	if a := n.send("GET", "/api/v1/approval-policies/"+p.ID, n.admin, ""); a.status != 404 {
		t.Errorf("deleted it is %d", a.status)
	}
}

// A result that does not match its job's schema fails the attempt. The answer names the mismatch and the
// job's new state.
func TestResultSchemas(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.Dev = true })
	if got := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","result_schema":{"$ref":"https://example.com/a"}}`).problem(t); got.Code != api.ValidationError || !strings.Contains(got.Error, "which it does not contain") {
		t.Errorf("a remote reference: %+v", got)
	}
	const schema = `{"type":"object","required":["score"],"properties":{"score":{"type":"number"}}}`
	id := n.enqueued(`{"queue":"q","max_retries":2,"retry_backoff":"none","result_schema":` + schema + `}`)
	var j api.Job
	n.do("GET", "/api/v1/jobs/"+id, "", 200, &j)
	if string(j.ResultSchema) != schema {
		t.Errorf("its schema is %s", j.ResultSchema)
	}
	got := n.nextOf("q")
	ack := fmt.Sprintf(`{"lease_token":%q,"result":{"score":"x"},"usage":{"input_tokens":7}}`, got.LeaseToken)
	a := n.send("POST", "/api/v1/ack/"+id, n.admin, ack)
	p := a.problem(t)
	equal(t, "status", a.status, 422)
	equal(t, "code", p.Code, api.ResultMismatch)
	equal(t, "error", p.Error, "result does not match its schema: /score: got string, want number")
	equal(t, "details.status", p.Details["status"], "retrying")
	equal(t, "details.mismatches", fmt.Sprint(p.Details["mismatches"]), "[map[path:/score reason:got string, want number]]")
	if again := n.send("POST", "/api/v1/ack/"+id, n.admin, ack); again.status != 422 || !reflect.DeepEqual(again.problem(t), p) {
		t.Errorf("asked again, for the answer was lost: %d %s", again.status, again.body)
	}
	repaired := fmt.Sprintf(`{"lease_token":%q,"result":{"score":1}}`, got.LeaseToken)
	if late := n.send("POST", "/api/v1/ack/"+id, n.admin, repaired); late.status != 409 || late.problem(t).Code != api.LeaseLost {
		t.Errorf("a better result comes too late: %d %s", late.status, late.body)
	}
	n.do("GET", "/api/v1/jobs/"+id, "", 200, &j)
	if *j.LastError != p.Error || j.Usage.InputTokens != 7 || string(j.Result) != "null" {
		t.Errorf("the job says %+v", j)
	}

	// In a batch request each result is checked independently.
	fine, plain := n.enqueued(`{"queue":"r","result_schema":`+schema+`}`), n.enqueued(`{"queue":"s"}`)
	again, other, third := n.nextOf("q"), n.nextOf("r"), n.nextOf("s")
	var out api.AckBatchResponse
	batch := fmt.Sprintf(`{"acks":[{"job_id":%q,"lease_token":%q},{"job_id":%q,"lease_token":%q,"result":{"score":1}},{"job_id":%q,"lease_token":%q,"result":1}]}`,
		id, again.LeaseToken, fine, other.LeaseToken, plain, third.LeaseToken)
	n.do("POST", "/api/v1/ack/batch", batch, 200, &out)
	if out.Acked != 2 || len(out.Errors) != 1 {
		t.Fatalf("%+v", out)
	}
	equal(t, "the refused job", out.Errors[0].JobID, id)
	equal(t, "its code", out.Errors[0].Code, api.ResultMismatch)
	equal(t, "its status", out.Errors[0].Details["status"], "dead")
	var repeated api.AckBatchResponse
	if n.do("POST", "/api/v1/ack/batch", batch, 200, &repeated); !reflect.DeepEqual(repeated, out) {
		t.Errorf("asked again: %+v", repeated)
	}
	n.do("GET", "/api/v1/jobs/"+fine, "", 200, &j)
	if j.State != "completed" || string(j.Result) != `{"score":1}` {
		t.Errorf("what matches is %s with %s", j.State, j.Result)
	}
}

// An iteration calls tools on any shards, and the next iteration gets their results.
func TestToolCalls(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			id := n.enqueued(`{"queue":"agents","agent":{"max_iterations":9}}`)
			got := n.nextOf("agents")
			n.acks(got, `"agent_status":"continue","tool_calls":[{"name":"search","queue":"search","payload":{"q":"<a>"}},{"name":"mail","queue":"mail","max_retries":1}]`)
			var j api.Job
			n.do("GET", "/api/v1/jobs/"+id, "", 200, &j)
			if j.State != "scheduled" || j.BlockedBy != 2 {
				t.Fatalf("it is %s, blocked by %d", j.State, j.BlockedBy)
			}
			search := n.take("search")
			if string(search.Payload) != `{"q":"<a>"}` {
				t.Errorf("the tool's payload is %s", search.Payload)
			}
			n.do("GET", "/api/v1/jobs/"+search.JobID, "", 200, &j)
			if j.ParentID == nil || *j.ParentID != id {
				t.Errorf("the tool's parent is %v", j.ParentID)
			}
			n.acks(search, `"result":{"hits":["<b>"]}`)
			mail := n.take("mail")
			n.do("POST", "/api/v1/fail/"+mail.JobID, fmt.Sprintf(`{"lease_token":%q,"error":"bounced"}`, mail.LeaseToken), 200, &api.FailResponse{})
			next := n.take("agents")
			want := fmt.Sprintf(`[{"name":"search","job_id":%q,"queue":"search","state":"completed","result":{"hits":["<b>"]}},{"name":"mail","job_id":%q,"queue":"mail","state":"dead","error":"bounced"}]`, search.JobID, mail.JobID)
			if data, err := json.Marshal(next.ToolResults); err != nil || unescaped(data) != want {
				t.Errorf("the next iteration gets %s, want %s", data, want)
			}
		})
	}
}

// An invalid tool call is refused before anything happens, and so is a call for a queue to which the worker's key has
// no right.
func TestToolCallsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	id := n.enqueued(`{"queue":"agents"}`)
	got := n.nextOf("agents")
	ack := func(key, rest string) answer {
		return n.send("POST", "/api/v1/ack/"+id, key, fmt.Sprintf(`{"lease_token":%q,%s}`, got.LeaseToken, rest))
	}
	for _, rest := range []string{
		`"tool_calls":[{"name":"a","queue":"q"}]`,
		`"agent_status":"continue","tool_calls":[{"queue":"q"}]`,
		`"agent_status":"continue","tool_calls":[{"name":"a","queue":"q","unique_key":"k"}]`,
		`"agent_status":"continue","tool_calls":[{"name":"a","queue":"q","depends_on":["` + id + `"]}]`,
		`"agent_status":"continue","tool_calls":[` + strings.Repeat(`{"name":"a","queue":"q"},`, 100) + `{"name":"a","queue":"q"}]`,
	} {
		if a := ack(n.admin, rest); a.status != http.StatusBadRequest {
			t.Errorf("%.60s: %d %s", rest, a.status, a.body)
		}
	}
	worker := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}, QueueScope: []tenancy.Glob{"agents"}})
	if a := ack(worker, `"agent_status":"continue","tool_calls":[{"name":"a","queue":"q"}]`); a.status != http.StatusForbidden {
		t.Errorf("a tool of another queue: %d %s", a.status, a.body)
	}
}

// unescaped undoes the escapes of encoding/json.
func unescaped(data []byte) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(data))
}
