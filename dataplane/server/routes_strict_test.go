package server_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

var wildcards = regexp.MustCompile(`\{[^}]*\}`)

// strictRoutes returns the routes that refuse unknown parameters and fields, by a sample path.
func strictRoutes(n *node) map[string]serve.Route {
	all := map[string]serve.Route{}
	for _, route := range n.server.Table() {
		if route.Strict {
			all[route.Method+" "+wildcards.ReplaceAllString(route.Path, "x")] = route
		}
	}
	return all
}

// A management route refuses an unknown parameter by its name.
func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	for at, route := range strictRoutes(n) {
		method, path, _ := strings.Cut(at, " ")
		a := n.send(method, path+"?if_setled=true", n.admin, "")
		p := a.problem(t)
		if a.status != http.StatusBadRequest || p.Code != api.ValidationError || p.fields(t) != "if_setled" {
			t.Errorf("%s: %d %s", at, a.status, a.body)
		}
		for _, known := range route.Query {
			if !strings.Contains(p.Error, known.Name) {
				t.Errorf("%s does not say that there is %s: %s", at, known.Name, p.Error)
			}
		}
	}
	n.same(before)
	if a := n.send("POST", "/api/v1/enqueue?if_setled=true", n.admin, `{"queue":"q","no_such":1}`); a.status != http.StatusCreated {
		t.Errorf("who enqueues is newer than the server: %d %s", a.status, a.body)
	}
}

// A body that is sent to a route without one is read and refused, because its sender expects an effect.
func TestNoBodyIsIgnored(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	answers[api.EnqueueResponse](n, http.StatusCreated, "POST", "/enqueue", `{"queue":"x"}`)
	before := n.dump()
	asked := 0
	for at, route := range strictRoutes(n) {
		method, path, _ := strings.Cut(at, " ")
		if route.Method == http.MethodGet || route.Request != nil || strings.HasSuffix(path, "/admin/restore") {
			continue
		}
		asked++
		for body, code := range map[string]api.Code{"not json": api.ParseError, `{"foo":1}`: api.ValidationError, `[]`: api.ValidationError} {
			for _, header := range [][]string{nil, {"Idempotency-Key: once"}} {
				if a := n.send(method, path, n.admin, body, header...); a.problem(t).Code != code {
					t.Errorf("%s %s %v: %d %s", at, body, header, a.status, a.body)
				}
			}
		}
	}
	n.same(before)
	if asked < 25 {
		t.Errorf("only %d routes have no body", asked)
	}
	for _, body := range []string{"", "{}", "null", " "} {
		n.answers(http.StatusOK, `{"status":"paused"}`, "POST", "x/pause", body)
	}
}

// A queue with unsettled jobs is deleted only with a plain confirmation.
func TestDeleteQueueAsksPlainly(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	answers[api.EnqueueResponse](n, http.StatusCreated, "POST", "/enqueue", `{"queue":"q"}`)
	before := n.dump()
	for _, more := range []string{
		"&if_settled=yes", "&if_settled=TRUE", "&if_settled=1", "&if_settled=", "&if_settled", "&if_setled=true", "&If_Settled=true",
		"&if_settled=false&if_settled=true", "&if_settled=%zz", ";if_settled=true", "&%80" + strings.Repeat("%80", 200) + "=1",
	} {
		a := n.send("DELETE", "/api/v1/queues/q?confirm=true"+more, n.admin, "")
		if p := a.problem(t); p.Code != api.ValidationError || len(a.body) > 2000 {
			t.Errorf("%s: %d %s", more, a.status, a.body)
		}
	}
	n.same(before)
	if a := n.send("DELETE", "/api/v1/queues/q?confirm=true&if_settled=true", n.admin, ""); a.status != http.StatusConflict {
		t.Errorf("it has a job: %d %s", a.status, a.body)
	}
	n.answers(http.StatusOK, `{"status":"deleted"}`, "DELETE", "q?confirm=true&if_settled=false", "")
}

// The path has the resource's name. A body may omit the name but must not contradict it.
func TestABodyNamesWhatItsPathNames(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	for _, c := range []struct{ path, body, field string }{
		{"providers/p", `{"name":"other"}`, "name"},
		{"auth/roles/r", `{"name":"other","permissions":["job.work"]}`, "name"},
		{"budgets/queue/q", `{"scope":"queue","target":"other","daily_usd":1,"default_reserve_usd":1}`, "target"},
		{"budgets/queue/q", `{"scope":"queue","daily_usd":1,"default_reserve_usd":1}`, "target"},
		{"limit-rules/q%2Fk", `{"queue":"q","key":"other","max_concurrency":1}`, "key"},
	} {
		a := n.send("PUT", "/api/v1/"+c.path, n.admin, c.body)
		if p := a.problem(t); p.Code != api.ValidationError || p.fields(t) != c.field {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.body)
		}
	}
	n.same(before)
	for path, bodies := range map[string][]string{
		"providers/p":     {`{}`, `{"name":"p"}`},
		"auth/roles/r":    {`{"permissions":["job.work"]}`, `{"name":"r","permissions":["job.work"]}`},
		"budgets/queue/q": {`{"daily_usd":1,"default_reserve_usd":1}`, `{"scope":"queue","target":"q","daily_usd":1,"default_reserve_usd":1}`},
	} {
		answers[map[string]any](n, http.StatusCreated, "PUT", "/"+path, bodies[0])
		answers[map[string]any](n, http.StatusOK, "PUT", "/"+path, bodies[1])
	}
}

// Routes of workers ignore an unknown field and warn about it.
func TestWorkersAreWarned(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	warned := 0
	for _, route := range n.server.Table() {
		if route.Strict || route.Request == nil {
			continue
		}
		warned++
		a := n.send(route.Method, wildcards.ReplaceAllString(route.Path, "x"), n.admin, `{"no_such":1}`)
		if got := a.header.Get(serve.WarningHeader); got != `unknown field "no_such"` {
			t.Errorf("%s %s: %d, warns %q", route.Method, route.Path, a.status, got)
		}
	}
	if warned < 8 {
		t.Errorf("%d routes warn, which are not all of the workers'", warned)
	}
	a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","prioritty":"high"}`)
	if got := a.header.Get(serve.WarningHeader); a.status != http.StatusCreated || got != `unknown field "prioritty"; did you mean "priority"?` {
		t.Errorf("%d, warns %q", a.status, got)
	}
	a = n.send("POST", "/api/v1/enqueue/batch", n.admin, `{"jobs":[{"queue":"q","queue":"r"}]}`)
	if got := a.header.Get(serve.WarningHeader); a.status != http.StatusCreated || got != `repeated field "queue"` {
		t.Errorf("%d, warns %q", a.status, got)
	}
}
