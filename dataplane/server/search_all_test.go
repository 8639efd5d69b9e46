package server_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// TestSearchTakesEveryFilter checks that every filter of the contract reaches the view, and that the error
// for an invalid filter names it.
func TestSearchTakesEveryFilter(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","priority":"high","tags":{"a.b":"x\"y"},"payload":{"to":"a_b%","n":5,"list":[1,2]}}`)
	for body, want := range map[string]string{
		`{"priority":"high","sort":"priority"}`:                          `"total":1,`,
		`{"priority":0}`:                                                 `"total":0,`,
		`{"tags":{"a.b":"x\"y"}}`:                                        `"total":1,`,
		`{"tags":{"a":"x"}}`:                                             `"total":0,`,
		`{"payload_contains":"a_b%"}`:                                    `"total":1,`,
		`{"payload_contains":"a%b"}`:                                     `"total":0,`,
		`{"payload_jq":".n > 4 and (.list | length == 2)"}`:              `"total":1,`,
		`{"payload_jq":".n > 5"}`:                                        `"total":0,`,
		`{"payload_jq":".n ~ 5"}`:                                        `"position":`,
		`{"created_after":"2020-01-01","created_before":"2999-01-01"}`:   `"total":1,`,
		`{"created_after":"2999-01-01"}`:                                 `"total":0,`,
		`{"scheduled_after":"2020-01-01"}`:                               `"total":0,`,
		`{"started_before":"2999-01-01"}`:                                `"total":0,`,
		`{"completed_before":"2999-01-01"}`:                              `"total":0,`,
		`{"attempt_min":0,"attempt_max":0,"sort":"attempt"}`:             `"total":1,`,
		`{"attempt_min":1}`:                                              `"total":0,`,
		`{"worker_id":"w"}`:                                              `"total":0,`,
		`{"has_errors":false}`:                                           `"total":1,`,
		`{"has_errors":true}`:                                            `"total":0,`,
		`{"error_contains":"x"}`:                                         `"total":0,`,
		`{"attempt_min":"","attempt_max":"","has_errors":"","limit":""}`: `"total":1,`,
		`{"state":"","tags":"","priority":"","created_after":""}`:        `"total":1,`,
		`{"state":null,"tags":null,"attempt_min":null,"has_errors":null,"priority":null,"expire_before":null,"batch_id":null,"limit":null}`: `"total":1,`,
		`{"has_errors":"yes"}`:  `"VALIDATION_ERROR"`,
		`{"attempt_min":"1"}`:   `"VALIDATION_ERROR"`,
		`{"sort":"started_at"}`: `"total":1,`,
		`{"sort":"id"}`:         `"VALIDATION_ERROR"`,
		`{"cursor":"x"}`:        `"VALIDATION_ERROR"`,
		`{"payload_contains":"` + strings.Repeat("x", 1025) + `"}`:       `"VALIDATION_ERROR"`,
		`{"priority":"urgent","state":["x"],"created_after":"tomorrow"}`: `state[0]`,
	} {
		if a := n.send("POST", "/api/v1/jobs/search?consistency=strong", n.admin, body); !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.body, want)
		}
	}
	if a := n.send("POST", "/api/v1/jobs/search", n.admin, `{"payload_jq":"."}`); a.status != 422 && a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Words are data: no search text is a syntax error of the full-text index.
func TestWordsAreFound(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","tags":{"tenant":"acme-corp"},"payload":{"to":"user@example.com","text":"the quick brown fox"}}`)
	for q, want := range map[string]int{
		"quick": 1, "QUICK fox": 1, `"quick brown"`: 1, `"brown quick"`: 0, "qui*": 1, "qui": 0, "user@example.com": 1, "acme-corp": 1,
		"quick slow": 0, "quick AND slow": 0, "NEAR(quick fox)": 0, "payload:quick": 0, "quick OR": 0, "-quick": 1, "^quick": 1, "q' OR 1=1": 0,
		"quick\x00 fox": 1, "( quick": 1, "* quick": 1, "!!!": -1, "": -1, `"quick`: -1, strings.Repeat("a ", job.MaxSearchTerms): 0,
		strings.Repeat("a ", job.MaxSearchTerms+1): -1, strings.Repeat("a", job.MaxSearchText): 0, strings.Repeat("a", job.MaxSearchText+1): -1,
	} {
		a := n.send("GET", "/api/v1/search/fulltext?consistency=strong&q="+url.QueryEscape(q), n.admin, "")
		if want < 0 && a.status != 400 || want >= 0 && !strings.Contains(string(a.body), fmt.Sprintf(`"total":%d,`, want)) {
			t.Errorf("%.40q: %d %s, want %d", q, a.status, a.body, want)
		}
	}
}

// A hidden job does not appear by words, by ids or in counts.
func TestWordsAndIDsKeepToTheKeysQueues(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	var ids []string
	for _, queue := range []string{"mine", "theirs", "mine"} {
		var made api.EnqueueResponse
		if err := json.Unmarshal(n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"`+queue+`","payload":{"w":"secret"}}`).body, &made); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.JobID)
	}
	var key api.CreatedKey
	if err := json.Unmarshal(n.send("POST", "/api/v1/auth/keys", n.admin, `{"name":"k","roles":["readonly"],"queue_scope":["mine"]}`).body, &key); err != nil {
		t.Fatal(err)
	}
	if a := n.send("GET", "/api/v1/search/fulltext?consistency=strong&q=secret", key.APIKey, ""); !strings.Contains(string(a.body), `"total":2,`) || strings.Contains(string(a.body), "theirs") {
		t.Errorf("%d %s", a.status, a.body)
	}
	asked, err := json.Marshal([]string{ids[2], "nothing", ids[1], "job_04000000000000000000000008", ids[0]})
	if err != nil {
		t.Fatal(err)
	}
	var got api.BulkGetResponse
	a := n.send("POST", "/api/v1/jobs/bulk-get", key.APIKey, `{"job_ids":`+string(asked)+`}`)
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Jobs) != 2 || got.Jobs[0].ID != ids[2] || got.Jobs[1].ID != ids[0] {
		t.Errorf("%d %s, want the jobs %s and %s", a.status, a.body, ids[2], ids[0])
	}
	for count, status := range map[int]int{0: 200, job.MaxBulkGet: 200, job.MaxBulkGet + 1: 400} {
		many, err := json.Marshal(api.BulkGetRequest{JobIDs: slices.Repeat([]string{"x"}, count)})
		if err != nil {
			t.Fatal(err)
		}
		if a := n.send("POST", "/api/v1/jobs/bulk-get", key.APIKey, string(many)); a.status != status {
			t.Errorf("%d ids: %d %s", count, a.status, a.body)
		}
	}
}
