package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/serve/servetest"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// No request decodes to much more memory than it has bytes.
func TestRequestsDoNotAmplify(t *testing.T) {
	servetest.Amplify(t, (&server.Server{}).Routes())
}

// repeated returns n items with commas between them.
func repeated(n int, item string) string { return strings.Repeat(item+",", n-1) + item }

// A request with many empty items is refused before the items are decoded, in JSON and by RPC.
func TestManyEmptyItemsAreRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url, worker := n.rpcFront(), n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	acks := repeated(300_000, `{}`)

	a := n.send("POST", "/api/v1/ack/batch", worker, `{"ACK\u0073":[`+acks+`]}`)
	p := a.problem(t)
	equal(t, "status", a.status, 413)
	equal(t, "code", p.Code, api.PayloadTooLarge)
	if p.Details["max_decoded_bytes"] == nil || !strings.Contains(p.Error, "fewer") {
		t.Errorf("the error names no bound or no remedy: %+v", p)
	}
	for _, c := range []struct {
		procedure, body string
		status          int
		says            string
	}{
		{"AckBatch", `{"items":[` + acks + `]}`, 400, "objects"},
		{"AckBatch", `{"workerId":"{\"{","items":[` + repeated(rpc.MaxFields, `{}`) + `]}`, 400, "objects"},
		{"AckBatch", `{"workerId":"` + strings.Repeat("{", 2*rpc.MaxFields) + `","items":[` + repeated(2, `{}`) + `]}`, 200, "errors"},
		{"AckBatch", `{"items":[` + repeated(job.MaxAckItems, `{"jobId":"`+strings.Repeat("x", 40)+`","usage":{"inputTokens":1}}`) + `]}`, 200, "errors"},
		{"Ack", `{"jobId":"x","toolCallsJson":"[` + repeated(job.MaxToolCalls, `{}`) + `]"}`, 404, "no job"},
		{"Ack", `{"jobId":"x","toolCallsJson":"[` + repeated(job.MaxToolCalls+1, `{}`) + `]"}`, 400, "more than 100 entries"},
		{"Ack", `{"jobId":"x","toolCallsJson":"[` + repeated(300_000, `{}`) + `]"}`, 400, "memory"},
		{"Enqueue", `{"queue":"q","optionsJson":"{\"depends_on\":[` + repeated(300_000, `0`) + `]}"}`, 400, "memory"},
	} {
		if status, answer, _ := n.post(url, "/corvo.v1.WorkerService/"+c.procedure, worker, c.body); status != c.status || !strings.Contains(answer, c.says) {
			t.Errorf("%s %.60s: %d %.300s", c.procedure, c.body, status, answer)
		}
	}
}

// A batch request of full jobs is accepted, and so are documents of many small parts.
func TestFullBatchesAreTaken(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	var tags strings.Builder
	for i := range job.MaxTags {
		fmt.Fprintf(&tags, `,"t%d":"v%d"`, i, i)
	}
	full := `{"queue":"q","tags":{` + tags.String()[1:] + `},"headers":{` + tags.String()[1:] + `},"agent":{"max_iterations":1},"max_retries":1,"cost_estimate_usd":0}`
	steps := `{"queue":"q","chain":{"steps":[` + repeated(job.MaxChainSteps, `{"queue":"q"}`) + `]}}`
	document := `{"queue":"q","payload":[` + repeated(300_000, `0`) + `],"checkpoint":` + strings.Repeat("[", job.MaxNesting) + strings.Repeat("]", job.MaxNesting) + `}`
	for what, body := range map[string]string{
		"full jobs": repeated(job.MaxEnqueueJobs, full), "chains": repeated(20, steps), "documents": repeated(2, document), "small jobs": repeated(job.MaxEnqueueJobs, `{"queue":"q"}`),
	} {
		if a := n.send("POST", "/api/v1/enqueue/batch", n.admin, `{"jobs":[`+body+`]}`); a.status != 201 {
			t.Errorf("%s: %d %.300s", what, a.status, a.body)
		}
	}
}
