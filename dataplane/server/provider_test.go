package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

func TestAProvidersLife(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	made := answers[api.Provider](n, 201, "POST", "/providers", `{"name":"anthropic","rpm_limit":60,"input_tpm_limit":100000}`)
	present(t, "created_at", made.CreatedAt)
	wantFields(t, "the created provider", made, func(want *api.Provider) {
		want.Name, want.RPMLimit, want.InputTPMLimit, want.OutputTPMLimit = "anthropic", 60, 100000, 0
	})
	if a := n.send("POST", "/api/v1/providers", n.admin, `{"name":"anthropic"}`); a.problem(t).Code != api.Conflict {
		t.Errorf("again: %d %s", a.status, a.body)
	}
	if list := answers[[]api.Provider](n, 200, "GET", "/providers", ""); len(list) != 1 || list[0] != made {
		t.Errorf("listed %+v", list)
	}
	put := answers[api.Provider](n, 200, "PUT", "/providers/anthropic", `{"output_tpm_limit":5}`, `If-Match: "1"`)
	if put.RPMLimit != 0 || put.OutputTPMLimit != 5 || put.CreatedAt != made.CreatedAt {
		t.Errorf("replaced by %+v", put)
	}
	if a := n.send("PUT", "/api/v1/providers/anthropic", n.admin, `{}`, `If-Match: "1"`); a.problem(t).Code != api.PreconditionFailed {
		t.Errorf("an old version: %d %s", a.status, a.body)
	}
	answers[api.Provider](n, 201, "PUT", "/providers/openai", `{"rpm_limit":1}`)
	answers[api.Status](n, 200, "DELETE", "/providers/anthropic", "")
	for _, method := range []string{"GET", "DELETE"} {
		if a := n.send(method, "/api/v1/providers/anthropic", n.admin, ""); a.problem(t).Code != api.NotFound {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
}

func TestProviderRefusals(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	for body, field := range map[string]string{
		`{}`:             "name",
		`{"name":"a b"}`: "name",
		`{"name":"` + strings.Repeat("p", job.MaxLabel+1) + `"}`:               "name",
		`{"name":"p","rpm_limit":-1}`:                                          "rpm_limit",
		`{"name":"p","input_tpm_limit":1000000001}`:                            "input_tpm_limit",
		`{"name":"p","output_tpm_limit":1000000001}`:                           "output_tpm_limit",
		`{"name":"p","rpm":1}`:                                                 "rpm",
		fmt.Sprintf(`{"name":"p","rpm_limit":%d.5}`, job.MaxTokensPerMinute-1): "rpm_limit",
	} {
		if a := n.send("POST", "/api/v1/providers", n.admin, body); a.problem(t).Code != api.ValidationError || !strings.Contains(string(a.body), field) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	n.same(before)
	answers[api.Provider](n, 201, "POST", "/providers", fmt.Sprintf(`{"name":%q,"rpm_limit":%d}`, strings.Repeat("p", job.MaxLabel), job.MaxTokensPerMinute))
	reader := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}})
	if a := n.send("POST", "/api/v1/providers", reader, `{"name":"p"}`); a.problem(t).Code != api.Forbidden {
		t.Errorf("a reader: %d %s", a.status, a.body)
	}
	scoped := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"q"}})
	if a := n.send("POST", "/api/v1/providers", scoped, `{"name":"p"}`); a.problem(t).Code != api.Forbidden {
		t.Errorf("who has one queue: %d %s", a.status, a.body)
	}
}

// A fetch takes as many jobs as a provider's limits permit. The others wait, but not the queue's jobs for
// other providers.
func TestAProvidersLimits(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	answers[api.Provider](n, 201, "POST", "/providers", `{"name":"p","rpm_limit":2}`)
	if q := answers[api.Queue](n, 200, "PUT", "/queues/llm", `{"provider":"p"}`); q.Provider == nil || *q.Provider != "p" {
		t.Errorf("the queue's provider is %v", q.Provider)
	}
	for _, body := range []string{`{"queue":"llm"}`, `{"queue":"llm"}`, `{"queue":"llm"}`, `{"queue":"llm","provider":"other"}`, `{"queue":"q","provider":"p"}`} {
		answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", body)
	}
	got := answers[api.FetchBatchResponse](n, 200, "POST", "/fetch/batch", `{"queues":["llm","q"],"count":9,"worker_id":"w","timeout":0}`)
	if len(got.Jobs) != 3 { // two of p, and the one of an undeclared provider
		t.Fatalf("fetched %d jobs", len(got.Jobs))
	}
	a := n.send("POST", "/api/v1/ack/"+got.Jobs[0].JobID, n.admin, `{"usage":{"input_tokens":10,"cache_creation_tokens":5,"cache_read_tokens":7,"output_tokens":3}}`)
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	now := answers[api.Provider](n, 200, "GET", "/providers/p", "")
	wantFields(t, "its traffic", now, func(want *api.Provider) {
		want.RequestsLastMinute, want.InputTokensLastMinute, want.OutputTokensLastMinute, want.WaitingJobs = 2, 15, 3, 2
	})

	// Removing the limit releases the waiting jobs.
	answers[api.Provider](n, 200, "PUT", "/providers/p", `{}`)
	for range 2 {
		one := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["llm","q"],"worker_id":"w","timeout":30}`)
		if one.JobID == "" {
			t.Error("nothing was fetched")
		}
	}
}
