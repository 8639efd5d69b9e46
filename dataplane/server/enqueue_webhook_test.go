package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// Any JSON becomes the payload byte for byte; an empty body becomes {}, and other text a string, whose quotes
// and escapes count towards the bound.
func TestWebhookPayloads(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.MaxPayload = 1000 })
	largest := `"` + strings.Repeat("x", 998) + `"`
	longest := strings.Repeat("x", 998)
	for body, want := range map[string]string{
		`a=b&c=<d>`: `"a=b&c=<d>"`, `{"a":`: `"{\"a\":"`, `{} {}`: `"{} {}"`, " zwölf\n": `" zwölf\n"`, "\x00": `"\u0000"`,
		longest:                 `"` + longest + `"`,
		strings.Repeat("[", 40): `"` + strings.Repeat("[", 40) + `"`,
		``:                      `{}`, " \r\n": `{}`, `null`: `{}`, `{"a": 1.0}`: `{"a": 1.0}`, "\n[1]\n": `[1]`, `"x"`: `"x"`, `0`: `0`, largest: largest,
	} {
		a := n.send("POST", "/api/v1/webhooks/q", n.admin, body, "Content-Type: text/plain")
		var made api.EnqueueResponse
		if err := json.Unmarshal(a.body, &made); err != nil || a.status != 201 || made.Status != "pending" {
			t.Errorf("%.20q: %d %s", body, a.status, a.body)
		} else if got := string(n.payload(made.JobID)); got != want {
			t.Errorf("%.20q is %.40s", body, got)
		}
	}
}

// Options in the query have the same effect as in a body.
func TestWebhookParams(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.Dev = true })
	before := n.enqueued(`{"queue":"q"}`)
	var made api.EnqueueResponse
	n.do("POST", "/api/v1/webhooks/q?fairness_key=acme&fairness_weight=3&provider=anthropic&cost_estimate_usd=0.25&dependency_policy=hold&depends_on="+before, `{}`, 201, &made)
	var j api.Job
	n.do("GET", "/api/v1/jobs/"+made.JobID, "", 200, &j)
	wantFields(t, "the job", j, func(want *api.Job) {
		want.State, want.BlockedBy, want.FairnessKey, want.FairnessWeight, want.Provider = "scheduled", 1, ptr("acme"), ptr(3), ptr("anthropic")
	})
}

func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.MaxPayload = 1000 })
	before := n.dump()
	for _, c := range []struct {
		path, body string
		status     int
		code       api.Code
		fields     string
	}{
		{"q", "caf\xe9", 400, api.ValidationError, "body"},
		{"q", strings.Repeat("x", 999), 413, api.PayloadTooLarge, "payload"},
		{"deep", strings.Repeat("[", 600) + strings.Repeat("]", 600), 400, api.ValidationError, "body"},
		{"q", "\"\xff\"", 400, api.ValidationError, "body"},
		{"q", `"` + strings.Repeat("x", 999) + `"`, 413, api.PayloadTooLarge, "payload"},
		{"a%20b", `{}`, 400, api.ValidationError, "queue"},
		{"q?delay=5s&uniquekey=k", `{}`, 400, api.ValidationError, "delay uniquekey"},
		{"q?headers=a:b", `{}`, 400, api.ValidationError, "headers"},
		{"q?" + strings.Repeat("x", 100) + "=1", `{}`, 400, api.ValidationError, strings.Repeat("x", 64)},
		{"q?priority=high&priority=high", `{}`, 400, api.ValidationError, "priority"},
		{"q?priority=urgent", `{}`, 400, api.ValidationError, "priority"},
		{"q?priority=3", `{}`, 400, api.ValidationError, "priority"},
		{"q?priority=01", `{}`, 400, api.ValidationError, "priority"},
		{"q?max_retries=three", `{}`, 400, api.ValidationError, "max_retries"},
		{"q?max_retries=0", `{}`, 400, api.ValidationError, "max_retries"},
		{"q?unique_key=k&unique_period=1h", `{}`, 400, api.ValidationError, "unique_period"},
		{"q?unique_key=k&unique_until=ever", `{}`, 400, api.ValidationError, "unique_until"},
		{"q?fairness_weight=x&fairness_key=k", `{}`, 400, api.ValidationError, "fairness_weight"},
		{"q?cost_estimate_usd=much", `{}`, 400, api.ValidationError, "cost_estimate_usd"},
		{"q?depends_on=job", `{}`, 400, api.ValidationError, "depends_on[0]"},
		{"q?tags=a", `{}`, 400, api.ValidationError, "tags"},
		{"q?tags=a:b&tags=a:c", `{}`, 400, api.ValidationError, "tags"},
		{"q?tags=:b", `{}`, 400, api.ValidationError, "tags"},
		{"q?unique_key=%zz", `{}`, 400, api.ValidationError, "query"},
		{"q?unique_key=a;b=c", `{}`, 400, api.ValidationError, "query"},
	} {
		a := n.send("POST", "/api/v1/webhooks/"+c.path, n.admin, c.body)
		if p := a.problem(t); a.status != c.status || p.Code != c.code || p.fields(t) != c.fields {
			t.Errorf("%.60s %.20s: %d %s", c.path, c.body, a.status, a.body)
		}
	}
	n.same(before)
}

// TestWebhookAccess checks that an enqueue by a webhook needs the right to enqueue to its queue, that its
// repeat with an Idempotency-Key gets the first answer, and that another enqueue with the key is refused.
func TestWebhookAccess(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	mine := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}, QueueScope: []tenancy.Glob{"mine.*"}})
	reader := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}})
	for _, c := range []struct {
		path, key string
		status    int
	}{
		{"mine.a", mine, 201}, {"theirs", mine, 403}, {"mine.a", reader, 403}, {"mine.a", "", 401},
	} {
		if a := n.send("POST", "/api/v1/webhooks/"+c.path, c.key, `{}`); a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.path, a.status, a.body, c.status)
		}
	}
	once := n.send("POST", "/api/v1/webhooks/q?tags=a:b", n.admin, `1`, "Idempotency-Key: k")
	again := n.send("POST", "/api/v1/webhooks/q?tags=a:b", n.admin, `1`, "Idempotency-Key: k")
	if once.status != 201 || again.status != 201 || string(once.body) != string(again.body) {
		t.Errorf("repeated: %d %s, then %d %s", once.status, once.body, again.status, again.body)
	}
	for _, other := range []string{"q?tags=a:c", "q", "p?tags=a:b"} {
		if a := n.send("POST", "/api/v1/webhooks/"+other, n.admin, `1`, "Idempotency-Key: k"); a.status != 409 {
			t.Errorf("%s with the same key: %d %s", other, a.status, a.body)
		}
	}
}
