package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
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
