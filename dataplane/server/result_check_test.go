package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// A result that would take years to check ends its attempt at once, and a schema whose expressions would take
// gigabytes is refused.
func TestResultSchemasOfMuchWork(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	const branching = `{"not":{"$ref":"#/$defs/s"},"$defs":{"s":{"type":"array","prefixItems":[{"$ref":"#/$defs/s"}],"contains":{"$ref":"#/$defs/s"}}}}`
	id := n.enqueued(`{"queue":"q","max_retries":1,"result_schema":` + branching + `}`)
	got := n.nextOf("q")
	a := n.send("POST", "/api/v1/ack/"+id, n.admin, fmt.Sprintf(`{"lease_token":%q,"result":%s}`, got.LeaseToken, strings.Repeat("[", 100)+strings.Repeat("]", 100)))
	p := a.problem(t)
	equal(t, "code", p.Code, api.ResultMismatch)
	equal(t, "error", p.Error, "result does not match its schema: needs too much work to check: make the result smaller or the schema simpler")

	many := `{"pattern":"(` + strings.Repeat("a", 500) + `){900}"}`
	p = n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","result_schema":`+many+`}`).problem(t)
	equal(t, "code", p.Code, api.ValidationError)
	if !strings.Contains(p.Error, "more than 20000 instructions") {
		t.Errorf("%s", p.Error)
	}
}

// A number that is too long under a name that is too long for an attempt's error ends the attempt, with the cut
// name in the error.
func TestAnUnwieldyNumberEndsTheAttempt(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	id := n.enqueued(`{"queue":"q","max_retries":1,"result_schema":{"type":"object"}}`)
	got := n.nextOf("q")
	name := strings.Repeat("a", 2*job.MaxErrorText)
	a := n.send("POST", "/api/v1/ack/"+id, n.admin, fmt.Sprintf(`{"lease_token":%q,"result":{%q:1e999}}`, got.LeaseToken, name))
	equal(t, "status", a.status, http.StatusUnprocessableEntity)
	p := a.problem(t)
	equal(t, "code", p.Code, api.ResultMismatch)
	if len(p.Error) > 1<<10 || !strings.Contains(p.Error, "aaa...") || !strings.Contains(p.Error, "too long to be compared") {
		t.Errorf("%s", p.Error)
	}
	var j api.Job
	n.do("GET", "/api/v1/jobs/"+id, "", http.StatusOK, &j)
	equal(t, "state", j.State, "dead")
}
