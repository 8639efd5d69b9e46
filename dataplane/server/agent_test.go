package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// The expected answers to a key for other queues, and the bodies of attacks.
func init() {
	for route, body := range map[string]string{
		"GET /api/v1/jobs/{id}/iterations": "",
		"GET /api/v1/jobs/{id}/scores":     "",
		"POST /api/v1/jobs/{id}/replay":    `{"from":1}`,
		"POST /api/v1/jobs/{id}/scores":    `{"dimension":"d","value":1}`,
	} {
		c := scoped[route]
		_, path, _ := strings.Cut(route, " ")
		c.path, c.body, c.status = strings.Replace(path, "{id}", "JOB", 1), body, http.StatusNotFound
		scoped[route] = c
		shapes[route] = []string{body}
	}
	shapes["POST /api/v1/jobs/{id}/scores"] = []string{`{"dimension":V,"scorer":V,"value":1}`}
}

// acks ends an attempt; rest are the members of the ack besides the token.
func (n *node) acks(j api.FetchedJob, rest string) {
	n.t.Helper()
	var got api.Status
	n.do("POST", "/api/v1/ack/"+j.JobID, fmt.Sprintf(`{"lease_token":%q,%s}`, j.LeaseToken, rest), http.StatusOK, &got)
	if got.Status != "ok" {
		n.t.Errorf("an ack answers %q", got.Status)
	}
}

// TestAgentLoop follows an agent's job: it continues, is held and approved, reaches its limit, is approved
// again and ends. Its iterations can be read, scored and replayed.
func TestAgentLoop(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			for _, queue := range queueOn(shards) {
				n.agentLoop(queue)
			}
		})
	}
}

func (n *node) agentLoop(queue string) {
	n.t.Helper()
	t := n.t
	id := n.enqueued(fmt.Sprintf(`{"queue":%q,"payload":{"goal":"g"},"agent":{"max_iterations":3,"max_cost_usd":0.5,"iteration_timeout":"5m"}}`, queue))
	j := n.nextOf(queue)
	if want := (api.FetchedAgent{MaxIterations: 3, MaxCostUSD: 500_000_000, IterationTimeout: "5m0s", Iteration: 1}); j.Agent == nil || *j.Agent != want || j.LeaseDuration != 60 {
		t.Fatalf("fetched %+v with %+v", j, j.Agent)
	}
	n.acks(j, `"agent_status":"continue","checkpoint":{"step":1},"trace":["thought"],"usage":{"input_tokens":10,"model":"m","cost_usd":0.1}`)
	n.acks(j, `"agent_status":"continue","usage":{"cost_usd":0.1}`) // a repeat counts once
	j = n.nextOf(queue)
	wantFields(t, "the job of the second iteration", j, func(want *api.FetchedJob) {
		want.Checkpoint, want.Attempt = json.RawMessage(`{"step":1}`), 2
		want.Agent = &api.FetchedAgent{MaxIterations: 3, MaxCostUSD: 500_000_000, IterationTimeout: "5m0s", Iteration: 2, TotalCostUSD: 100_000_000}
	})
	n.acks(j, `"agent_status":"hold","hold_reason":"may I?","result":{"draft":1},"usage":{"cost_usd":0.05}`)
	wantFields(t, "a job whose agent asks a person", n.document(id), func(want *api.Job) {
		want.State, want.HoldReason, want.Result = "held", ptr("may I?"), json.RawMessage(`{"draft":1}`)
	})
	n.act("POST", id+"/approve", `{}`, "pending")
	j = n.nextOf(queue)
	n.acks(j, `"agent_status":"continue","checkpoint":{"step":3}`)
	if doc := n.document(id); doc.State != "held" || !strings.Contains(*doc.HoldReason, "max_iterations is 3: approve it") {
		t.Errorf("a job at its limit: %+v", doc)
	}
	n.act("POST", id+"/approve", `{}`, "pending")
	j = n.nextOf(queue)
	var beat api.HeartbeatResponse
	n.do("POST", "/api/v1/heartbeat", fmt.Sprintf(`{"jobs":{%q:{"lease_token":%q,"usage":{"cost_usd":0.35}}}}`, id, j.LeaseToken), http.StatusOK, &beat)
	if beat.Jobs[id].BudgetExceeded {
		t.Error("exactly what it may cost is too much")
	}
	n.do("POST", "/api/v1/heartbeat", fmt.Sprintf(`{"jobs":{%q:{"lease_token":%q,"usage":{"cost_usd":0.000000001}}}}`, id, j.LeaseToken), http.StatusOK, &beat)
	if got := beat.Jobs[id]; !got.BudgetExceeded || got.Status != "ok" {
		t.Errorf("a heartbeat beyond max_cost_usd answers %+v", got)
	}
	n.acks(j, `"agent_status":"done","result":{"answer":42}`)
	if doc := n.document(id); doc.State != "completed" || string(doc.Result) != `{"answer":42}` {
		t.Errorf("a job that is done: %+v", doc)
	}
	n.iterationsOf(id)
	n.replayed(queue, id)
	n.judged(id)
}

func (n *node) iterationsOf(id string) {
	n.t.Helper()
	t := n.t
	var all api.Iterations
	a := n.do("GET", "/api/v1/jobs/"+id+"/iterations", "", http.StatusOK, &all)
	if len(all.Iterations) != 4 || all.HasMore {
		t.Fatalf("iterations: %s", a.body)
	}
	for i, want := range []string{
		`1 continue 1 {"step":1} ["thought"] null 0.1`, `2 hold 2 null null {"draft":1} 0.05`,
		`3 continue 3 {"step":3} null null 0`, `4 done 4 {"step":3} null {"answer":42} 0.350000001`,
	} {
		it := all.Iterations[i]
		if got := fmt.Sprintf("%d %s %d %s %s %s %s", it.Iteration, it.Status, it.Attempt, it.Checkpoint, it.Trace, it.Result, it.CostUSD); got != want {
			t.Errorf("iteration %s, want %s", got, want)
		}
		equal(t, "worker_id", it.WorkerID, ptr("w1"))
		present(t, "started_at", it.StartedAt)
		present(t, "created_at", it.CreatedAt)
		equal(t, "has a hold_reason", it.HoldReason != nil, i == 1)
		equal(t, "has no usage", it.Usage == nil, i == 2)
	}
	n.do("GET", "/api/v1/jobs/"+id+"/iterations?after=1&limit=2", "", http.StatusOK, &all)
	if len(all.Iterations) != 2 || all.Iterations[0].Iteration != 2 || !all.HasMore {
		t.Errorf("a page: %+v", all)
	}
	n.do("GET", "/api/v1/jobs/"+id+"/iterations?after=4", "", http.StatusOK, &all)
	if len(all.Iterations) != 0 || all.Iterations == nil || all.HasMore {
		t.Errorf("the page after the last: %+v", all)
	}
	for _, query := range []string{"limit=0", "limit=1001", "after=-1", "after=x"} {
		n.do("GET", "/api/v1/jobs/"+id+"/iterations?"+query, "", http.StatusBadRequest, nil)
	}
}

func (n *node) replayed(queue, id string) {
	n.t.Helper()
	t := n.t
	var made, again api.EnqueueResponse
	n.do("POST", "/api/v1/jobs/"+id+"/replay", `{"from":3}`, http.StatusCreated, &made, "Idempotency-Key: replay-"+queue)
	n.do("POST", "/api/v1/jobs/"+id+"/replay", `{"from":3}`, http.StatusCreated, &again, "Idempotency-Key: replay-"+queue)
	if made.JobID != again.JobID || made.Status != "pending" {
		t.Errorf("replayed as %+v, and again as %+v", made, again)
	}
	j := n.nextOf(queue)
	wantFields(t, "the replay", j, func(want *api.FetchedJob) {
		want.JobID, want.Payload, want.Checkpoint = made.JobID, json.RawMessage(`{"goal":"g"}`), json.RawMessage(`{"step":1}`)
		agent := *j.Agent
		agent.Iteration, agent.TotalCostUSD = 3, 150_000_000
		want.Agent = &agent
	})
	n.acks(j, `"result":1`)
	for body, want := range map[string]api.Code{`{"from":9}`: api.NotFound, `{"from":0}`: api.ValidationError, `{}`: api.ValidationError, `{"from":10001}`: api.ValidationError} {
		if p := n.send("POST", "/api/v1/jobs/"+id+"/replay", n.admin, body).problem(t); p.Code != want {
			t.Errorf("a replay with %s: %+v, want %s", body, p, want)
		}
	}
	plain := n.enqueue(queue)
	if p := n.do("POST", "/api/v1/jobs/"+plain+"/replay", `{"from":1}`, http.StatusConflict, nil).problem(t); p.Code != api.StateConflict {
		t.Errorf("the replay of a job without iterations: %+v", p)
	}
	n.act("DELETE", plain, "", "deleted")
}

func (n *node) judged(id string) {
	n.t.Helper()
	for _, body := range []string{`{"dimension":"quality","value":0.5,"scorer":"jane"}`, `{"dimension":"quality","value":-1e3,"scorer":"jane"}`, `{"dimension":"speed","value":0}`} {
		n.do("POST", "/api/v1/jobs/"+id+"/scores", body, http.StatusOK, nil)
	}
	var all api.Scores
	a := n.do("GET", "/api/v1/jobs/"+id+"/scores", "", http.StatusOK, &all)
	if len(all.Scores) != 2 {
		n.t.Fatalf("scores: %s", a.body)
	}
	equal(n.t, "the first score", all.Scores[0].Value, -1000)
	equal(n.t, "the first scorer", all.Scores[0].Scorer, "jane")
	equal(n.t, "the second dimension", all.Scores[1].Dimension, "speed")
	present(n.t, "the second created_at", all.Scores[1].CreatedAt)
	for _, body := range []string{`{"dimension":"quality"}`, `{"value":1}`, `{"dimension":"` + strings.Repeat("d", 129) + `","value":1}`, `{"dimension":"d","value":1e999}`, `{"dimension":"d","value":"high"}`} {
		n.do("POST", "/api/v1/jobs/"+id+"/scores", body, http.StatusBadRequest, nil)
	}
	n.do("POST", "/api/v1/jobs/job_00000000000000000000000000/scores", `{"dimension":"d","value":1}`, http.StatusNotFound, nil)
	n.act("DELETE", id, "", "deleted")
	n.do("GET", "/api/v1/jobs/"+id+"/scores", "", http.StatusNotFound, nil)
	n.do("GET", "/api/v1/jobs/"+id+"/iterations", "", http.StatusNotFound, nil)
}

// TestAgentAcksInABatch checks that an agent's ack has the same effect in a batch request as alone, and that
// the answer names an invalid ack.
func TestAgentAcksInABatch(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	id := n.enqueue("q")
	j := n.nextOf("q")
	var got api.AckBatchResponse
	n.do("POST", "/api/v1/ack/batch", fmt.Sprintf(`{"acks":[{"job_id":%q,"lease_token":%q,"agent_status":"hold","hold_reason":"r","trace":{"a":1}},
		{"job_id":%[1]q,"agent_status":"later","hold_reason":"r"},{"job_id":%[1]q,"agent_status":"continue","step_status":"exit"}]}`, id, j.LeaseToken), http.StatusOK, &got)
	if got.Acked != 1 || len(got.Errors) != 2 {
		t.Fatalf("a batch request of agents' acks: %+v", got)
	}
	for i, e := range got.Errors {
		equal(t, fmt.Sprintf("the code of error %d", i), e.Code, api.ValidationError)
	}
	if doc := n.document(id); doc.State != "held" || *doc.HoldReason != "r" {
		t.Errorf("held by a batch: %+v", doc)
	}
}

// The Go client runs an agent's job.
func TestClientAgents(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	made, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q", Agent: &api.Agent{MaxIterations: 2, IterationTimeout: "1h"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, status := range []string{api.AgentContinue, api.AgentDone} {
		j, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		if j == nil || j.Agent == nil {
			t.Fatalf("fetched %+v", j)
		}
		equal(t, "iteration", j.Agent.Iteration, i+1)
		for range 2 {
			if err := c.Ack(ctx, j.JobID, api.AckRequest{LeaseToken: j.LeaseToken, AgentStatus: status}); err != nil {
				t.Fatal(err)
			}
		}
	}
	page, err := c.Iterations(ctx, made.JobID, client.IterationPage{After: 1, Limit: 1}, client.Read{Strong: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Iterations) != 1 || page.HasMore {
		t.Fatalf("the page after the first iteration: %+v", page)
	}
	equal(t, "the last iteration's status", page.Iterations[0].Status, api.AgentDone)
	again, err := c.Replay(ctx, made.JobID, 2)
	if err != nil {
		t.Fatal(err)
	}
	became(t, c, again, "pending")
	if err := c.Score(ctx, made.JobID, "quality", 0.25, ""); err != nil {
		t.Fatal(err)
	}
	if scores, err := c.Scores(ctx, made.JobID, client.Read{}); err != nil || len(scores) != 1 || scores[0].Value != 0.25 {
		t.Errorf("%+v, %v", scores, err)
	}
}
