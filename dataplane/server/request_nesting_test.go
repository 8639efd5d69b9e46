package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/job"
)

// nested returns an object with nested lists, of the given number of levels in total.
func nested(levels int) string {
	return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
}

const someJob = "job_00000000000000000000000000"

// Documents are nested at most job.MaxNesting levels deep. A deeper document is refused with the name of its
// field, and nothing is written.
func TestNestingRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	for _, c := range []struct{ path, body, field string }{
		{"enqueue", `{"queue":"q","payload":%s}`, "payload"},
		{"enqueue", `{"queue":"q","checkpoint":%s}`, "checkpoint"},
		{"enqueue", `{"queue":"q","result_schema":%s}`, "result_schema"},
		{"enqueue", `{"queue":"q","chain":{"steps":[{"queue":"q"},{"queue":"q","payload":%s}]}}`, "chain.steps[1].payload"},
		{"enqueue", `{"queue":"q","chain":{"steps":[{"queue":"q"}],"on_exit":{"queue":"q","payload":%s}}}`, "chain.on_exit.payload"},
		{"enqueue", `{"queue":"q","chain":{"steps":[{"queue":"q"}],"on_failure":%s}}`, "chain.on_failure"},
		{"enqueue/batch", `{"jobs":[{"queue":"q"},{"queue":"q","payload":%s}]}`, "jobs[1].payload"},
		{"enqueue/batch", `{"jobs":[{"queue":"q"}],"batch":{"callback_queue":"q","callback_payload":%s}}`, "batch.callback_payload"},
		{"webhooks/q", `%s`, "body"},
		{"ack/" + someJob, `{"result":%s}`, "result"},
		{"ack/" + someJob, `{"checkpoint":%s}`, "checkpoint"},
		{"ack/" + someJob, `{"trace":%s}`, "trace"},
		{"ack/" + someJob, `{"tool_calls":[{"name":"t","queue":"q","payload":%s}]}`, "tool_calls[0].payload"},
		{"ack/batch", `{"acks":[{"job_id":"` + someJob + `","result":%s}]}`, "acks[0].result"},
		{"heartbeat", `{"jobs":{"` + someJob + `":{"progress":%s}}}`, "jobs." + someJob + ".progress"},
		{"heartbeat", `{"jobs":{"` + someJob + `":{"checkpoint":%s}}}`, "jobs." + someJob + ".checkpoint"},
		{"jobs/" + someJob + "/approve", `{"payload":%s}`, "payload"},
		{"schedules", `{"name":"n","queue":"q","cron":"@daily","payload":%s}`, "payload"},
	} {
		for _, levels := range []int{job.MaxNesting + 1, 9_990, 20_000} {
			a := n.send("POST", "/api/v1/"+c.path, n.admin, fmt.Sprintf(c.body, nested(levels)))
			want := fmt.Sprintf("nested %d levels deep, at most %d are taken", levels, job.MaxNesting)
			what, p := fmt.Sprintf("%s %s of %d levels", c.path, c.field, levels), a.problem(t)
			equal(t, what+": status", a.status, 400)
			equal(t, what+": code", p.Code, api.ValidationError)
			equal(t, what+": field", p.fields(t), c.field)
			if !strings.Contains(p.Error, want) {
				t.Errorf("%s: the error is %q, want %q", what, p.Error, want)
			}
		}
	}
	n.same(before)
}

// TestNestingRefusedByRPC checks that the RPC, whose documents are texts, refuses documents that are nested
// too deep.
func TestNestingRefusedByRPC(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c := rpcClient(t, h2c(t), n.rpcFront(), n.admin)
	before := n.dump()
	enqueue := func(m *workerpb.EnqueueRequest) error { _, err := c.Enqueue(t.Context(), rpcOf(m)); return err }
	ack := func(m *workerpb.AckRequest) error { _, err := c.Ack(t.Context(), rpcOf(m)); return err }
	beat := func(m *workerpb.HeartbeatJob) error {
		_, err := c.Heartbeat(t.Context(), rpcOf(&workerpb.HeartbeatRequest{Jobs: map[string]*workerpb.HeartbeatJob{someJob: m}}))
		return err
	}
	for field, send := range map[string]func(document string) error{
		"payload_json is ": func(d string) error { return enqueue(&workerpb.EnqueueRequest{Queue: "q", PayloadJson: d}) },
		"payload: ": func(d string) error {
			return enqueue(&workerpb.EnqueueRequest{Queue: "q", OptionsJson: `{"payload":` + d + `}`})
		},
		"result_json is ":      func(d string) error { return ack(&workerpb.AckRequest{JobId: someJob, ResultJson: d}) },
		"checkpoint_json is ":  func(d string) error { return ack(&workerpb.AckRequest{JobId: someJob, CheckpointJson: d}) },
		"trace_json is ":       func(d string) error { return ack(&workerpb.AckRequest{JobId: someJob, TraceJson: d}) },
		".progress_json is ":   func(d string) error { return beat(&workerpb.HeartbeatJob{ProgressJson: d}) },
		".checkpoint_json is ": func(d string) error { return beat(&workerpb.HeartbeatJob{CheckpointJson: d}) },
	} {
		for _, levels := range []int{job.MaxNesting + 1, 20_000} {
			if strings.HasPrefix(field, "payload: ") && levels > 9_000 {
				continue // the options themselves are not deeper; see below
			}
			want := fmt.Sprintf("%snested %d levels deep, at most %d are taken", field, levels, job.MaxNesting)
			if e := rpc.FromError(send(nested(levels))); e == nil || e.Code != api.ValidationError || !strings.Contains(e.Message, want) {
				t.Errorf("%d levels: %.300v, want %s", levels, e, want)
			}
		}
	}
	for what, err := range map[string]error{
		"options_json is nested 10001 levels deep, at most 10000 are taken": enqueue(&workerpb.EnqueueRequest{Queue: "q", OptionsJson: nested(10_001)}),
		"tool_calls_json is nested 515 levels deep, at most 514 are taken":  ack(&workerpb.AckRequest{JobId: someJob, ToolCallsJson: `[{"name":"t","queue":"q","payload":` + nested(job.MaxNesting+1) + `}]`}),
	} {
		if e := rpc.FromError(err); e == nil || e.Code != api.ValidationError || !strings.Contains(e.Message, what) {
			t.Errorf("%.300v, want %s", e, what)
		}
	}
	n.same(before)
}

// Documents of the maximum depth pass through a chain whose steps hand them on. A worker can answer with a
// document as deep as the one it got, and every reader sees the whole document.
func TestNestingOfTheMost(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	c := rpcClient(t, h2c(t), n.rpcFront(), "")
	most := nested(job.MaxNesting)
	var made api.EnqueueResponse
	n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":"q","payload":%[1]s,"checkpoint":%[1]s,"agent":{"max_iterations":2},
		"chain":{"steps":[{"queue":"q"},{"queue":"q","payload":%[1]s},{"queue":"q"}],"on_exit":{"queue":"q","payload":%[1]s}}}`, most), 201, &made)
	n.do("POST", "/api/v1/webhooks/other", most, 201, nil)
	n.do("POST", "/api/v1/schedules", `{"name":"n","queue":"q","cron":"@yearly","payload":`+most+`}`, 201, nil)
	seen := func(id string) {
		t.Helper()
		n.document(id)
		for _, path := range []string{"jobs/" + id, "jobs/" + id + "/iterations", "jobs/" + id + "/events", "schedules"} {
			n.do("GET", "/api/v1/"+path, "", 200, nil)
		}
		n.do("POST", "/api/v1/jobs/search?consistency=strong", `{}`, 200, nil)
		n.do("POST", "/api/v1/jobs/search?consistency=strong", `{"payload_jq":".a | length > 7"}`, 200, nil)
		n.do("POST", "/api/v1/jobs/bulk-get", `{"job_ids":["`+id+`"]}`, 200, nil)
	}
	seen(made.JobID)
	for step := range 4 {
		got, err := c.Fetch(t.Context(), rpcOf(&workerpb.FetchRequest{Queues: []string{"q"}, WorkerId: "w"}))
		if err != nil || !got.Msg.Found {
			t.Fatalf("step %d: %v, %v", step, got, err)
		}
		m := got.Msg
		n.do("POST", "/api/v1/heartbeat", fmt.Sprintf(`{"jobs":{%q:{"lease_token":%q,"progress":%[3]s,"checkpoint":%[3]s}}}`, m.JobId, m.LeaseToken, most), 200, nil)
		seen(m.JobId)
		if step > 0 { // its payload is deeper, because it contains the result before
			a := n.send("POST", "/api/v1/ack/"+m.JobId, "", fmt.Sprintf(`{"lease_token":%q,"result":%s}`, m.LeaseToken, m.PayloadJson))
			if p := a.problem(t); a.status != http.StatusBadRequest || p.fields(t) != "result" {
				t.Errorf("step %d: %d %.200s", step, a.status, a.body)
			}
		}
		n.do("POST", "/api/v1/ack/"+m.JobId, fmt.Sprintf(`{"lease_token":%q,"result":%[2]s,"checkpoint":%[2]s,"trace":%[2]s}`, m.LeaseToken, most), 200, nil)
		seen(m.JobId)
	}
	if list, err := n.client("").Search(t.Context(), api.SearchRequest{}, client.Read{Strong: true}); err != nil || len(list.Jobs) != 5 {
		t.Errorf("%v, %v", list, err)
	}
}
