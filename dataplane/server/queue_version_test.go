package server_test

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/serve"
)

// If-Match replaces a queue only at the version that was read.
func TestPutQueueIfMatch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	refused := func(body string, header ...string) {
		t.Helper()
		if a := n.send("PUT", "/api/v1/queues/q", n.admin, body, header...); a.problem(t).Code != api.PreconditionFailed {
			t.Errorf("%s %v: %d %s", body, header, a.status, a.body)
		}
	}
	refused(`{}`, `If-Match: "1"`)
	if n.send("GET", "/api/v1/queues/q", n.admin, "").status != 404 {
		t.Error("what was refused made the queue")
	}
	made, err := c.PutQueueAt(ctx, "q", api.PutQueueRequest{}, 0)
	if err != nil || made.Version == 0 {
		t.Fatalf("made %+v, %v", made, err)
	}
	refused(`{}`, "If-None-Match: *")
	read, err := c.Queue(ctx, "q", client.Read{Strong: true})
	if err != nil || read.Version != made.Version {
		t.Fatalf("read version %d, made was %d, %v", read.Version, made.Version, err)
	}
	five, seven := 5, int64(7)
	put, err := c.PutQueueAt(ctx, "q", api.PutQueueRequest{MaxConcurrency: &five}, read.Version)
	if err != nil || put.Version == read.Version || put.MaxConcurrency == nil {
		t.Fatalf("put %+v, %v", put, err)
	}
	if _, err := c.PutQueueAt(ctx, "q", api.PutQueueRequest{MaxLength: &seven}, read.Version); api.CodeOf(err) != api.PreconditionFailed {
		t.Errorf("an old version: %v", err)
	}
	if err := c.PauseQueue(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutQueueAt(ctx, "q", api.PutQueueRequest{MaxLength: &seven}, put.Version); api.CodeOf(err) != api.PreconditionFailed {
		t.Errorf("paused meanwhile: %v", err)
	}
	for _, tag := range []string{"x", `"x"`, "", `W/"1"`} {
		refused(`{}`, "If-Match: "+tag)
	}
	if q := n.queue("q"); !q.Paused || q.MaxLength != nil {
		t.Errorf("the queue is %+v", q)
	}
	answers[api.Queue](n, 200, "PUT", "/queues/q", `{}`, "If-Match: *")
	if a := n.send("PUT", "/api/v1/queues/q", n.admin, `{}`, `If-None-Match: "1"`); a.problem(t).Code != api.ValidationError {
		t.Errorf("If-None-Match of a version: %d %s", a.status, a.body)
	}
	if read, err := c.Queues(ctx, client.Read{}); err != nil || len(read) != 1 || read[0].Version != 0 {
		t.Errorf("the list is %+v, %v", read, err)
	}
}

// Settings have no version, so a request with If-Match is refused.
func TestPutSettingsIfMatch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	for _, tag := range []string{`"1"`, "x"} {
		if a := n.send("PUT", "/api/v1/settings", n.admin, `{"unknown_model":"hold"}`, "If-Match: "+tag); a.problem(t).Code != api.PreconditionFailed {
			t.Errorf("%s: %d %s", tag, a.status, a.body)
		}
	}
	n.same(before)
	answers[api.Settings](n, 200, "PUT", "/settings", `{"unknown_model":"hold"}`, "If-Match: *")
}

// If-Match deletes a queue only at the version that was read.
func TestDeleteQueueIfMatch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	remove := func(tag string) answer {
		return n.send("DELETE", "/api/v1/queues/q?confirm=true", n.admin, "", "If-Match: "+tag)
	}
	if a := remove(`"1"`); a.problem(t).Code != api.NotFound {
		t.Errorf("no such queue: %d %s", a.status, a.body)
	}
	made := n.send("PUT", "/api/v1/queues/q", n.admin, `{}`).header.Get("ETag")
	answers[api.Status](n, 200, "POST", "/queues/q/pause", "")
	for _, tag := range []string{made, "x", `"x"`, ""} {
		if a := remove(tag); a.problem(t).Code != api.PreconditionFailed {
			t.Errorf("If-Match %s: %d %s", tag, a.status, a.body)
		}
	}
	if a := remove(n.send("GET", "/api/v1/queues/q", n.admin, "").header.Get("ETag")); a.status != 200 {
		t.Errorf("as it was read: %d %s", a.status, a.body)
	}
	answers[api.Queue](n, 200, "PUT", "/queues/q", `{}`)
	if a := remove("*"); a.status != 200 {
		t.Errorf("as it is: %d %s", a.status, a.body)
	}
}

// The repeat of a deletion with If-Match gets the first answer.
func TestRepeatedDeletesAnswerTheSame(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for _, c := range []struct{ made, body, path string }{
		{"/queues/q", `{}`, "/queues/q?confirm=true"},
		{"/limit-rules/r", `{"queue":"r","max_concurrency":1}`, "/limit-rules/r"},
	} {
		tag := n.send("PUT", "/api/v1"+c.made, n.admin, c.body).header.Get("ETag")
		for i, line := range []string{"If-Match: " + tag, "If-Match: *", "no condition"} {
			if i > 0 {
				n.send("PUT", "/api/v1"+c.made, n.admin, c.body)
			}
			header := []string{"Idempotency-Key: " + c.made + strconv.Itoa(i), line}
			if i == 2 {
				header = header[:1]
			}
			first := n.send("DELETE", "/api/v1"+c.path, n.admin, "", header...)
			again := n.send("DELETE", "/api/v1"+c.path, n.admin, "", header...)
			if first.status != 200 || again.status != 200 || string(first.body) != string(again.body) {
				t.Errorf("%s %v: %d %s, then %d %s", c.path, header, first.status, first.body, again.status, again.body)
			}
			header[0] = "Idempotency-Key: other"
			if a := n.send("DELETE", "/api/v1"+c.path, n.admin, "", header...); a.problem(t).Code != api.NotFound {
				t.Errorf("%s %v: what is gone: %d %s", c.path, header, a.status, a.body)
			}
		}
	}
}

// A rule without limits has the version of its queue, which If-Match requires.
func TestQueueRuleOfNoLimitsIfMatch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	const none, one = `{"queue":"q"}`, `{"queue":"q","max_concurrency":1}`
	put := func(body string, header ...string) answer {
		return n.send("PUT", "/api/v1/limit-rules/q", n.admin, body, header...)
	}
	for _, line := range []string{`If-Match: "1"`, "If-Match: *"} {
		if a := put(one, line, "Idempotency-Key: early"); a.problem(t).Code != api.PreconditionFailed {
			t.Errorf("%s: %d %s", line, a.status, a.body)
		}
	}
	if n.send("GET", "/api/v1/queues/q", n.admin, "").status != 404 {
		t.Error("what was refused made the queue")
	}
	tag := put(none).header.Get("ETag")
	if a := put(one, `If-Match: "1"`); a.problem(t).Code != api.PreconditionFailed {
		t.Errorf("another version: %d %s", a.status, a.body)
	}
	for _, key := range []string{"Idempotency-Key: any", "X: none"} {
		if a := put(one, "If-Match: *", key); !strings.Contains(a.problem(t).Error, "there is no limit rule q") {
			t.Errorf("any rule: %d %s", a.status, a.body)
		}
	}
	limited := put(one, "If-Match: "+tag)
	if limited.status != 200 {
		t.Fatalf("by the tag of its PUT: %d %s", limited.status, limited.body)
	}
	for i, match := range []string{limited.header.Get("ETag"), "*"} {
		put(one)
		header := []string{"If-Match: " + match, "Idempotency-Key: lift" + strconv.Itoa(i)}
		first, again := put(none, header...), put(none, header...)
		if first.status != 200 || again.status != 200 || string(first.body) != string(again.body) {
			t.Errorf("lifted by %s: %d %s, then %d %s", match, first.status, first.body, again.status, again.body)
		}
	}
}

// The limit rule of a whole queue is part of the queue's settings and has their version. If-Match replaces
// and deletes it only at the version that was read.
func TestQueueRuleIfMatch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	refused := func(method, body, tag string) {
		t.Helper()
		if a := n.send(method, "/api/v1/limit-rules/q", n.admin, body, "If-Match: "+tag); a.problem(t).Code != api.PreconditionFailed {
			t.Errorf("%s If-Match %s: %d %s", method, tag, a.status, a.body)
		}
	}
	one, two := 1, 2
	refused("PUT", `{"queue":"q","max_concurrency":1}`, `"1"`)
	made, err := c.CreateLimitRule(ctx, api.LimitRuleRequest{Queue: "q", MaxConcurrency: &one})
	if err != nil || made.Version == 0 {
		t.Fatalf("made %+v, %v", made, err)
	}
	read, err := c.LimitRule(ctx, "q", client.Read{})
	if err != nil || read.Version != made.Version {
		t.Fatalf("read %+v, made %+v, %v", read, made, err)
	}
	if queue, err := c.Queue(ctx, "q", client.Read{}); err != nil || queue.Version != read.Version {
		t.Errorf("the queue has version %d, its rule %d, %v", queue.Version, read.Version, err)
	}
	put, err := c.PutLimitRule(ctx, "q", api.LimitRuleRequest{Queue: "q", MaxConcurrency: &two}, read.Version)
	if err != nil || put.Version == read.Version {
		t.Fatalf("put %+v, %v", put, err)
	}
	equal(t, "max_concurrency", put.MaxConcurrency, &two)
	answers[api.Status](n, 200, "POST", "/queues/q/concurrency", `{"max":3}`)
	before := n.dump()
	for _, tag := range []string{strconv.Quote(strconv.FormatInt(put.Version, 10)), "x", `"x"`, ""} {
		refused("PUT", `{"queue":"q","max_concurrency":4}`, tag)
		refused("DELETE", "", tag)
	}
	n.same(before)
	answers[api.LimitRule](n, 200, "PUT", "/limit-rules/q", `{"queue":"q","max_concurrency":5}`, "If-Match: *")
	if read, err = c.LimitRule(ctx, "q", client.Read{}); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteLimitRule(ctx, "q", read.Version); err != nil {
		t.Errorf("deleted as it was read: %v", err)
	}
	refused("PUT", `{"queue":"q","max_concurrency":1}`, "*")
}

// A change of a queue's limits neither ends its draining nor resumes it, unless the request says so.
func TestQueueRuleKeepsWhatIsPaused(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.enqueued(`{"queue":"q"}`)
	answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["q"],"worker_id":"w","timeout":0}`)
	answers[api.Status](n, 200, "POST", "/queues/q/drain", `{}`)
	for _, c := range []struct{ body, want string }{
		{`"max_concurrency":5`, api.QueueDraining},
		{`"paused":true`, api.QueueDraining},
		{`"max_concurrency":4,"paused":false`, "active"},
		{`"max_concurrency":5`, "active"},
		{`"paused":true`, "paused"},
		{`"max_concurrency":6,"paused":null`, "paused"},
	} {
		rule := answers[api.LimitRule](n, 200, "PUT", "/limit-rules/q", `{"queue":"q",`+c.body+`}`)
		if q := n.queue("q"); q.Status != c.want || rule.Paused != q.Paused {
			t.Errorf("%s: the queue is %s, want %s; the rule is %+v", c.body, q.Status, c.want, rule)
		}
	}
	answers[api.Status](n, 200, "DELETE", "/limit-rules/q", "")
	if q := n.queue("q"); q.Status != "active" {
		t.Errorf("without its rule the queue is %s", q.Status)
	}
}

// If-Match revokes a key only at the version that was read.
func TestRevokeKeyIfMatch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	made := answers[api.CreatedKey](n, 201, "POST", "/auth/keys", `{"name":"k","roles":["worker"]}`)
	path := "/auth/keys/" + made.ID
	answers[api.Key](n, 200, "PUT", path, `{"name":"l","roles":["worker"]}`, `If-Match: "1"`)
	if a := n.send("DELETE", "/api/v1"+path, n.admin, "", `If-Match: "1"`); a.problem(t).Code != api.PreconditionFailed {
		t.Errorf("an old version: %d %s", a.status, a.body)
	}
	answers[api.Status](n, 200, "DELETE", path, "", `If-Match: "2"`)
}

// TestConditionsAreTakenOrRefused checks that a route that takes no precondition refuses a request with one
// and changes nothing.
func TestConditionsAreTakenOrRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	var taking []string
	for _, route := range n.server.Table() {
		for _, line := range []string{`If-Match: "1"`, "If-None-Match: *"} {
			header, _, _ := strings.Cut(line, ": ")
			if slices.Contains(route.Conditions, header) {
				taking = append(taking, header+" "+route.Method+" "+route.Path)
				continue
			}
			if route.Method == http.MethodGet && header == serve.IfNoneMatch || route.Problem != nil {
				continue
			}
			a := n.send(route.Method, sample(route.Path), n.admin, harmless(sample(route.Path)), line)
			if route.Unbuilt || route.Method == http.MethodGet && route.Permission == serve.Open {
				if (a.status == 501) != route.Unbuilt || !route.Unbuilt && a.status != 200 {
					t.Errorf("%s %s with %s: %d %s", route.Method, route.Path, line, a.status, a.body)
				}
				continue
			}
			if p := a.problem(t); p.Code != api.ValidationError || !strings.Contains(p.Error, header) {
				t.Errorf("%s %s with %s: %d %s", route.Method, route.Path, line, a.status, a.body)
			}
		}
	}
	n.same(before)
	slices.Sort(taking)
	golden(t, filepath.Join("testdata", "conditions.golden"), []byte(strings.Join(taking, "\n")+"\n"))
}
