package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// The expected answers to a key for other queues, and the bodies of attacks.
func init() {
	for verb, body := range map[string]string{"retry": "", "cancel": "", "hold": `{"reason":V}`, "approve": "", "reject": `{"reason":V}`} {
		route := "POST /api/v1/jobs/{id}/" + verb
		shapes[route] = []string{body}
		c := scoped[route]
		c.path, c.status = "/api/v1/jobs/JOB/"+verb, http.StatusNotFound
		scoped[route] = c
	}
	shapes["DELETE /api/v1/jobs/{id}"], shapes["GET /api/v1/dead"] = []string{""}, []string{""}
	c := scoped["DELETE /api/v1/jobs/{id}"]
	c.path, c.status = "/api/v1/jobs/JOB", http.StatusNotFound
	scoped["DELETE /api/v1/jobs/{id}"] = c
	c = scoped["GET /api/v1/dead"]
	c.path, c.status = "/api/v1/dead?queue=theirs", http.StatusForbidden
	scoped["GET /api/v1/dead"] = c
}

// act performs an action on a job and checks the status in the answer.
func (n *node) act(method, path, body, want string, headers ...string) {
	n.t.Helper()
	var got api.Status
	n.do(method, "/api/v1/jobs/"+path, body, http.StatusOK, &got, headers...)
	if got.Status != want {
		n.t.Fatalf("%s %s: %s, want %s", method, path, got.Status, want)
	}
}

// lease fetches the waiting job of a queue.
func (n *node) lease(queue, id string) (token string) {
	n.t.Helper()
	var got api.FetchedJob
	n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q],"worker_id":"w1","timeout":0}`, queue), http.StatusOK, &got)
	if got.JobID != id {
		n.t.Fatalf("fetched %s, want %s", got.JobID, id)
	}
	return got.LeaseToken
}

// The actions of a person on a job, on any shard.
func TestJobsByHand(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			for _, queue := range queueOn(shards) {
				n.heldByHand(queue)
				n.cancelledByHand(queue)
				n.deletedByHand(queue)
			}
		})
	}
}

func (n *node) heldByHand(queue string) {
	n.t.Helper()
	id := n.enqueue(queue)
	n.act("POST", id+"/hold", `{"reason":"look first"}`, "held")
	n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q],"timeout":0}`, queue), http.StatusNoContent, nil)
	n.act("POST", id+"/approve", `{}`, "pending")
	n.act("POST", id+"/hold", "", "held")
	n.act("POST", id+"/reject", `{"reason":"never"}`, "dead")
	rejected := n.document(id)
	if len(rejected.Attempts) != 1 || len(rejected.Errors) == 0 {
		n.t.Fatalf("a rejected job: %+v", rejected)
	}
	equal(n.t, "last_error", rejected.LastError, ptr("never"))
	equal(n.t, "attempt", rejected.Attempt, 0)
	equal(n.t, "the attempt of its error", rejected.Errors[0].Attempt, 0)
	wantFields(n.t, "the rejection", rejected.Attempts[0], func(want *api.JobAttempt) {
		want.Attempt, want.WorkerID, want.Outcome = 0, nil, ptr(api.OutcomeRejected)
	})
	n.act("POST", id+"/retry", "", "pending")
	token := n.lease(queue, id)
	n.do("POST", "/api/v1/ack/"+id, fmt.Sprintf(`{"lease_token":%q,"result":7}`, token), http.StatusOK, nil)
	n.act("POST", id+"/retry", "", "pending")
	again := n.document(id)
	equal(n.t, "attempts", len(again.Attempts), 0)
	wantFields(n.t, "a job that is to run again", again, func(want *api.Job) {
		want.Result, want.CompletedAt, want.Attempt = json.RawMessage("null"), nil, 0
	})
	n.act("DELETE", id, "", "deleted")
}

func (n *node) cancelledByHand(queue string) {
	n.t.Helper()
	id := n.enqueue(queue)
	n.act("POST", id+"/cancel", "", "cancelled")
	n.act("POST", id+"/cancel", "", "cancelled")
	n.act("POST", id+"/retry", "", "pending")
	token := n.lease(queue, id)
	n.act("POST", id+"/cancel", "", "cancelling")
	n.act("POST", id+"/cancel", "", "cancelling")
	other := n.enqueue(queue)
	otherToken := n.lease(queue, other)
	var beat api.HeartbeatResponse
	n.do("POST", "/api/v1/heartbeat", fmt.Sprintf(`{"jobs":{%q:{"lease_token":%q},%q:{"lease_token":%q}}}`, id, token, other, otherToken), http.StatusOK, &beat)
	equal(n.t, "the answer about a job that is being cancelled", beat.Jobs[id].Status, "cancel")
	equal(n.t, "canceled", beat.Canceled, []string{id})
	equal(n.t, "acked", beat.Acked, []string{other})
	equal(n.t, "unknown", len(beat.Unknown), 0)
	var failed api.FailResponse
	n.do("POST", "/api/v1/fail/"+id, fmt.Sprintf(`{"lease_token":%q,"error":"stopped"}`, token), http.StatusOK, &failed)
	if failed.Status != "cancelled" || failed.AttemptsRemaining != 0 {
		n.t.Errorf("the fail of a job that was being cancelled: %+v", failed)
	}
	cancelled := n.document(id)
	equal(n.t, "state", cancelled.State, "cancelled")
	if len(cancelled.Attempts) != 1 {
		n.t.Fatalf("a cancelled job: %+v", cancelled)
	}
	wantFields(n.t, "its attempt", cancelled.Attempts[0], func(want *api.JobAttempt) {
		want.Outcome, want.WorkerID = ptr(api.OutcomeCancelled), ptr("w1")
	})
	n.do("POST", "/api/v1/ack/"+other, fmt.Sprintf(`{"lease_token":%q}`, otherToken), http.StatusOK, nil)
	p := n.do("POST", "/api/v1/jobs/"+other+"/cancel", "", http.StatusConflict, nil).problem(n.t)
	if p.Code != api.StateConflict || !strings.Contains(p.Error, "completed") {
		n.t.Errorf("a completed job is cancelled: %+v", p)
	}
}

func (n *node) deletedByHand(queue string) {
	n.t.Helper()
	id, active := n.enqueue(queue), ""
	n.act("DELETE", id, "", "deleted")
	for _, method := range []string{"GET", "DELETE"} {
		n.do(method, "/api/v1/jobs/"+id, "", http.StatusNotFound, nil)
	}
	active = n.enqueue(queue)
	token := n.lease(queue, active)
	n.act("DELETE", active, "", "deleting")
	if j := n.document(active); j.State != "active" {
		n.t.Errorf("a job whose worker has not let go is %s", j.State)
	}
	n.do("POST", "/api/v1/ack/"+active, fmt.Sprintf(`{"lease_token":%q}`, token), http.StatusOK, nil)
	n.do("GET", "/api/v1/jobs/"+active, "", http.StatusNotFound, nil)
}

// A worker that shuts down gives its job back, and no attempt is counted.
func TestWorkerShutdown(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	id := n.enqueue("q")
	for range 5 { // more often than the job has attempts
		token := n.lease("q", id)
		var failed api.FailResponse
		a := n.do("POST", "/api/v1/fail/"+id, fmt.Sprintf(`{"lease_token":%q,"error":%q,"usage":{"input_tokens":2}}`, token, api.WorkerShutdown), http.StatusOK, &failed)
		wantFields(t, "the answer", failed, func(want *api.FailResponse) {
			want.Status, want.Attempt, want.AttemptsRemaining = "retrying", 0, job.DefaultMaxAttempts
		})
		if !strings.Contains(string(a.body), "next_attempt_at") {
			t.Errorf("the answer %s has no next_attempt_at", a.body)
		}
	}
	if j := n.document(id); j.State != "pending" || len(j.Errors) != 0 || j.Usage.InputTokens != 10 {
		t.Errorf("%+v", j)
	}
	token := n.lease("q", id)
	var failed api.FailResponse
	n.do("POST", "/api/v1/fail/"+id, fmt.Sprintf(`{"lease_token":%q,"error":"worker_shutdown: now"}`, token), http.StatusOK, &failed)
	if failed.Attempt != 1 {
		t.Errorf("an error that only begins so counts %d attempts", failed.Attempt)
	}
}

// The dead jobs of all queues, newest first, page by page.
func TestDeadJobs(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			queues := queueOn(shards)
			var dead []string
			for i := range 5 {
				queue := queues[i%shards]
				id := n.enqueue(queue)
				n.enqueue(queue) // lives
				n.act("POST", id+"/hold", "", "held")
				n.act("POST", id+"/reject", "", "dead")
				dead = append(dead, id)
			}
			slices.Sort(dead)
			var found []string
			cursor := ""
			for {
				var page api.SearchResponse
				n.do("GET", "/api/v1/dead?limit=2&cursor="+cursor, "", http.StatusOK, &page)
				if page.Total != 5 || len(page.Jobs) > 2 {
					t.Fatalf("a page of %d jobs of %d", len(page.Jobs), page.Total)
				}
				for _, j := range page.Jobs {
					found = append(found, j.ID)
				}
				if cursor = page.Cursor; !page.HasMore {
					break
				}
			}
			if shards == 1 && !slices.IsSortedFunc(found, func(a, b string) int { return strings.Compare(b, a) }) {
				t.Errorf("%v is not newest first", found)
			}
			if slices.Sort(found); !slices.Equal(found, dead) {
				t.Errorf("found %v, want %v", found, dead)
			}
			var page api.SearchResponse
			n.do("GET", "/api/v1/dead?queue="+queues[0], "", http.StatusOK, &page)
			if want := (5 + shards - 1) / shards; len(page.Jobs) != want {
				t.Errorf("queue %s has %d dead jobs, want %d", queues[0], len(page.Jobs), want)
			}
		})
	}
	n := startNode(t, nil)
	for query, field := range map[string]string{"limit=0": "limit", "limit=x": "limit", "limit=1001": "limit", "queue=a+b": "queue"} {
		a := n.send("GET", "/api/v1/dead?"+query, n.admin, "")
		if p := a.problem(t); a.status != 400 || p.fields(t) != field {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	if a := n.send("GET", "/api/v1/dead?limit=1000", n.admin, ""); a.status != 200 {
		t.Errorf("the largest page: %d %s", a.status, a.body)
	}
	if a := n.send("GET", "/api/v1/dead?cursor=x", n.admin, ""); a.status != 400 {
		t.Errorf("a cursor that is none: %d %s", a.status, a.body)
	}
	made, err := n.client(n.admin).Enqueue(t.Context(), api.EnqueueRequest{Queue: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"hold", "reject"} {
		if a := n.send("POST", "/api/v1/jobs/"+made.JobID+"/"+verb, n.admin, ""); a.status != 200 {
			t.Fatalf("%s: %d %s", verb, a.status, a.body)
		}
	}
	mine := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine"}})
	for key, total := range map[string]string{mine: `"total":0`, n.admin: `"total":1`} {
		if a := n.send("GET", "/api/v1/dead", key, ""); a.status != 200 || !strings.Contains(string(a.body), total) {
			t.Errorf("the dead jobs of the scope, want %s: %d %s", total, a.status, a.body)
		}
	}
}

// An impossible action is refused and leaves the store unchanged.
func TestRefusedJobActions(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	admin := n.client(n.admin)
	active := n.one(admin, "mine").JobID
	waits, err := admin.Enqueue(t.Context(), api.EnqueueRequest{Queue: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	scoped := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"other*"}})
	worker := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	verbs := []string{"retry", "cancel", "hold", "approve", "reject", ""}
	missing := job.NewID(1, "mine", job.Entropy{1}).String()
	type refusal struct {
		key, id, verb, body string
		status              int
		code                api.Code
		fields              string
	}
	cases := []refusal{
		{n.admin, waits.JobID, "retry", "", 409, api.StateConflict, ""},
		{n.admin, active, "retry", "", 409, api.StateConflict, ""},
		{n.admin, active, "hold", "", 409, api.StateConflict, ""},
		{n.admin, waits.JobID, "approve", "", 409, api.StateConflict, ""},
		{n.admin, waits.JobID, "reject", "", 409, api.StateConflict, ""},
		{n.admin, waits.JobID, "hold", `{"reason":"` + strings.Repeat("x", job.MaxHoldReason+1) + `"}`, 400, api.ValidationError, "reason"},
		{n.admin, waits.JobID, "reject", `{"reason":7}`, 400, api.ValidationError, "reason"},
		{n.admin, waits.JobID, "hold", `{"why":"x"}`, 400, api.ValidationError, "why"},
		{n.admin, waits.JobID, "approve", `{"queue":"q"}`, 400, api.ValidationError, "queue"},
		{n.admin, waits.JobID, "cancel", `{"force":true}`, 400, api.ValidationError, "force"},
		{n.admin, waits.JobID, "cancel", `[]`, 400, api.ValidationError, "body"},
		{n.admin, waits.JobID, "hold", `{`, 400, api.ParseError, ""},
	}
	for _, verb := range verbs {
		cases = append(cases,
			refusal{n.admin, missing, verb, "", 404, api.NotFound, ""},
			refusal{n.admin, "job_x", verb, "", 404, api.NotFound, ""},
			refusal{scoped, waits.JobID, verb, "", 404, api.NotFound, ""},
			refusal{worker, waits.JobID, verb, "", 403, api.Forbidden, ""})
	}
	before := n.dump()
	for _, c := range cases {
		method, path := "POST", "/api/v1/jobs/"+c.id+"/"+c.verb
		if c.verb == "" {
			method, path = "DELETE", "/api/v1/jobs/"+c.id
		}
		a := n.send(method, path, c.key, c.body)
		p := a.problem(t)
		if a.status != c.status || p.Code != c.code || p.Error == "" {
			t.Errorf("%s %s %.50s: %d %s", method, path, c.body, a.status, a.body)
		} else if got := p.fields(t); got != c.fields {
			t.Errorf("%s %s %.50s: details name %q, want %q", method, path, c.body, got, c.fields)
		}
	}
	n.same(before)
	a := n.send("POST", "/api/v1/jobs/"+waits.JobID+"/hold", n.admin, `{"reason":"`+strings.Repeat("x", job.MaxHoldReason)+`"}`)
	if a.status != 200 {
		t.Errorf("the longest reason: %d %s", a.status, a.body)
	}
}

// TestJobActionsAreRemembered checks that an action that is repeated with its Idempotency-Key gets the first
// answer, whatever the job's state is by then. The repeat of a refused action is tried again.
func TestJobActionsAreRemembered(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	id := n.enqueue(onShard(1, 2, 0))
	const key = "Idempotency-Key: k1"
	n.do("POST", "/api/v1/jobs/"+id+"/approve", "", http.StatusConflict, nil, key)
	n.act("POST", id+"/cancel", "", "cancelled", "Idempotency-Key: k2")
	n.act("POST", id+"/retry", "", "pending")
	n.act("POST", id+"/cancel", "", "cancelled", "Idempotency-Key: k2")
	if j := n.document(id); j.State != "pending" {
		t.Errorf("the repeat has been done again: the job is %s", j.State)
	}
	n.act("POST", id+"/hold", "", "held")
	n.act("POST", id+"/approve", "", "pending", key)
}

// A job that expired before any fetch has had no attempt.
func TestAnExpiredJobHadNoAttempt(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	made := answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"q","expire_after":"1ms"}`)
	var j api.Job
	eventually(t, "it expires", func() bool {
		j = answers[api.Job](n, 200, "GET", "/jobs/"+made.JobID, "")
		return j.State == "dead"
	})
	equal(t, "attempt", j.Attempt, 0)
	equal(t, "last_error", j.LastError, ptr("expired"))
	if len(j.Errors) != 1 || j.Errors[0].Attempt != 0 {
		t.Errorf("its errors are %+v, want one of attempt 0", j.Errors)
	}
}
