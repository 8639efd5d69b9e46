package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

// Every filter of a search reaches the view: a job that does not match it is not found.
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
