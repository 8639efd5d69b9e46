package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server/convert"
)

// What a search asks for reaches the view, whichever way it narrows: a job that has
// none of it is not found.
func TestSearchesByWhatFewJobsHave(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q"}`)
	const id = "04000000000000000000000008"
	for body, want := range map[string]string{
		`{}`:                                                   `"total":1,`,
		`{"unique_key":""}`:                                    `"total":1,`,
		`{"unique_key":"k"}`:                                   `"total":0,`,
		`{"batch_id":"batch_` + id + `"}`:                      `"total":0,`,
		`{"parent_id":"job_` + id + `"}`:                       `"total":0,`,
		`{"chain_id":"chain_` + id + `"}`:                      `"total":0,`,
		`{"expire_after":"2020-01-01"}`:                        `"total":0,`,
		`{"expire_before":"2999-01-01"}`:                       `"total":0,`,
		`{"queue":"q","expire_before":"2999-01-01T00:00:00Z"}`: `"total":0,`,
		`{"batch_id":"` + id + `"}`:                            `"code":"VALIDATION_ERROR"`,
		`{"parent_id":"batch_` + id + `"}`:                     `"code":"VALIDATION_ERROR"`,
		`{"chain_id":7}`:                                       `"code":"VALIDATION_ERROR"`,
		`{"expire_after":"soon"}`:                              `"code":"VALIDATION_ERROR"`,
		fmt.Sprintf(`{"unique_key":%q}`, strings.Repeat("k", job.MaxUniqueKey+1)): `"code":"VALIDATION_ERROR"`,
	} {
		if a := n.send("POST", "/api/v1/jobs/search?consistency=strong", n.admin, body); !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.body, want)
		}
	}
}

// Every part of a search has its place in the view's query.
func TestToQuery(t *testing.T) {
	t.Parallel()
	at := time.Unix(7, 0)
	var f convert.Faults
	asked := convert.FromSearch(&f, &convert.SearchBody{SearchRequest: api.SearchRequest{
		Queue: "q", State: []string{"dead"}, JobIDPrefix: "job_0", Order: "asc", Cursor: "c", Limit: ptr(3), UniqueKey: "k",
		BatchID: "batch_" + strings.Repeat("4", 25) + "0", ParentID: "job_" + strings.Repeat("5", 25) + "0", ChainID: "chain_" + strings.Repeat("6", 25) + "0",
		ExpireAfter: api.TimeOf(at), ExpireBefore: api.TimeOf(at.Add(1)),
	}})
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%+v", toQuery(asked))
	const want = "{Queue:q Queues:[] States:[STATE_DEAD] IDPrefix:job_0 UniqueKey:k BatchID:job_44444444444444444444444440 " +
		"ParentID:job_55555555555555555555555550 ChainID:job_66666666666666666666666660 " +
		"ExpireAfter:1970-01-01 00:00:07 +0000 UTC ExpireBefore:1970-01-01 00:00:07.000000001 +0000 UTC Order:asc Limit:3 Cursor:c}"
	if got != want {
		t.Errorf("the query is\n%s\nwant\n%s", got, want)
	}
}
