package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// The rules of a key and of a queue are created, read, replaced, listed together and deleted in the same way.
func TestLimitRules(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	do := func(method, path, body string, want int) (rule api.LimitRule) {
		t.Helper()
		a := n.send(method, "/api/v1/limit-rules"+path, n.admin, body)
		if a.status != want {
			t.Fatalf("%s %s %s: %d %s", method, path, body, a.status, a.body)
		}
		if want < 300 && method != "DELETE" {
			if err := json.Unmarshal(a.body, &rule); err != nil {
				t.Fatal(err)
			}
		}
		return rule
	}
	for _, c := range []struct{ id, key string }{{"q/acme", "acme"}, {"q/*", "*"}, {"q/a/b?c", "a/b?c"}, {"q", ""}} {
		path := "/" + strings.NewReplacer("/", "%2F", "?", "%3F").Replace(c.id)
		key, _ := json.Marshal(c.key)
		do("GET", path, "", 404)
		body := fmt.Sprintf(`{"queue":"q","key":%s,"max_concurrency":3,"rate_limit":10,"rate_window":"1m"}`, key)
		made := do("POST", "", body, 201)
		present(t, "created_at", made.CreatedAt)
		wantFields(t, "the created rule", made, func(want *api.LimitRule) {
			want.ID, want.Queue, want.Key, want.Paused = c.id, "q", c.key, false
			want.MaxConcurrency, want.RateLimit, want.RateWindowMs = ptr(3), ptr(10), ptr(int64(60000))
		})
		do("POST", "", body, 409)
		equal(t, "the read rule", do("GET", path, "", 200), made)
		changed := do("PUT", path, fmt.Sprintf(`{"queue":"q","key":%s,"paused":true}`, key), 200)
		wantFields(t, "the changed rule", changed, func(want *api.LimitRule) {
			want.Paused, want.MaxConcurrency, want.RateLimit, want.RateWindowMs, want.CreatedAt = true, nil, nil, nil, made.CreatedAt
		})
		do("PUT", path, `{"queue":"other","key":"k"}`, 400)
		do("DELETE", path, "", 200)
		do("DELETE", path, "", 404)
		if again := do("PUT", path, body, 201); again.ID != c.id {
			t.Errorf("made anew %+v", again)
		}
	}
	list := n.send("GET", "/api/v1/limit-rules", n.admin, "")
	var all []api.LimitRule
	if err := json.Unmarshal(list.body, &all); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, rule := range all {
		ids = append(ids, rule.ID)
	}
	if got := fmt.Sprint(ids); got != "[q q/* q/a/b?c q/acme]" {
		t.Errorf("listed %s", got)
	}
	// The queue's rule is its settings.
	if q := n.send("GET", "/api/v1/queues/q", n.admin, ""); !strings.Contains(string(q.body), `"max_concurrency":3,"rate_limit":10,"rate_window_ms":60000`) {
		t.Errorf("the queue is %s", q.body)
	}
}

// TestLimitRuleCreatedOnce checks that a POST with a new Idempotency-Key does not replace a rule, and that a
// repeat of the POST that created the rule gets the first answer.
func TestLimitRuleCreatedOnce(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	if a := n.send("PUT", "/api/v1/queues/known", n.admin, `{}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for id, of := range map[string]string{"new": `"queue":"new"`, "known": `"queue":"known"`, "q%2Fk": `"queue":"q","key":"k"`} {
		first, other := `{`+of+`,"max_concurrency":3}`, `{`+of+`,"max_concurrency":4}`
		var made, again, read api.LimitRule
		n.do("POST", "/api/v1/limit-rules", first, http.StatusCreated, &made, "Idempotency-Key: first-"+id)
		for i, body := range []string{first, other} {
			a := n.send("POST", "/api/v1/limit-rules", n.admin, body, fmt.Sprint("Idempotency-Key: fresh-", i, id))
			if a.status != http.StatusConflict || a.problem(t).Code != api.Conflict {
				t.Errorf("%s with a new key: %d %s", body, a.status, a.body)
			}
		}
		n.do("POST", "/api/v1/limit-rules", first, http.StatusCreated, &again, "Idempotency-Key: first-"+id)
		equal(t, "the repeat", again, made)
		n.do("GET", "/api/v1/limit-rules/"+id, "", http.StatusOK, &read)
		equal(t, "the rule", read, made)
	}
}

func TestLimitRuleRefusals(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for body, names := range map[string]string{
		`{"key":"k"}`:     "queue",
		`{"queue":"a b"}`: "queue",
		`{"queue":"q","key":"` + strings.Repeat("k", 257) + `"}`:          "key",
		`{"queue":"q","key":"k","max_concurrency":-1}`:                    "max_concurrency",
		`{"queue":"q","max_concurrency":1000001}`:                         "max_concurrency",
		`{"queue":"q","key":"k","rate_limit":1}`:                          "rate_window",
		`{"queue":"q","rate_window":"1m"}`:                                "rate_window",
		`{"queue":"q","key":"k","rate_limit":1,"rate_window":"25h"}`:      "rate_window",
		`{"queue":"q","key":"k","rate_limit":1e8,"rate_window":"1m"}`:     "rate_limit",
		`{"queue":"q","key":"k","concurrency":1}`:                         "concurrency",
		`{"queue":"q","key":"k","rate_limit":-1,"rate_window":"1m"}`:      "rate_limit",
		`{"queue":"q","key":"k\u0000","rate_limit":1,"rate_window":"1m"}`: "key",
	} {
		a := n.send("POST", "/api/v1/limit-rules", n.admin, body)
		if p := a.problem(t); a.status != http.StatusBadRequest || !strings.Contains(p.Error, names) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	for body, names := range map[string]string{
		`{"queue":"q","fairness_key":"*"}`:                        "fairness_key",
		`{"queue":"q","fairness_key":"k","fairness_weight":1001}`: "fairness_weight",
		`{"queue":"q","fairness_key":"k","fairness_weight":-1}`:   "fairness_weight",
		`{"queue":"q","fairness_weight":2}`:                       "fairness_weight",
	} {
		a := n.send("POST", "/api/v1/enqueue", n.admin, body)
		if p := a.problem(t); a.status != http.StatusBadRequest || !strings.Contains(p.Error, names) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

// A key with a queue scope sees and creates only the rules of its queues.
func TestLimitRulesAreScoped(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for _, body := range []string{`{"queue":"mine","key":"k"}`, `{"queue":"theirs","key":"k"}`, `{"queue":"mine","paused":true}`, `{"queue":"theirs","paused":true}`} {
		if a := n.send("POST", "/api/v1/limit-rules", n.admin, body); a.status != 201 {
			t.Fatalf("%s: %d %s", body, a.status, a.body)
		}
	}
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Operator}, QueueScope: []tenancy.Glob{"mine"}})
	var all []api.LimitRule
	if err := json.Unmarshal(n.send("GET", "/api/v1/limit-rules", key, "").body, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].ID != "mine" || all[1].ID != "mine/k" {
		t.Errorf("listed %+v, want the rules mine and mine/k", all)
	}
	for _, path := range []string{"/theirs", "/theirs%2Fk"} {
		for _, method := range []string{"GET", "DELETE"} {
			if a := n.send(method, "/api/v1/limit-rules"+path, key, ""); a.status != 404 {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
		}
	}
	for _, body := range []string{`{"queue":"theirs","key":"l"}`, `{"queue":"theirs"}`} {
		if a := n.send("POST", "/api/v1/limit-rules", key, body); a.status != 403 {
			t.Errorf("POST %s: %d %s", body, a.status, a.body)
		}
	}
}

// Over HTTP, a fairness key with one job is served before the backlog of another, a key's limit holds, and
// ageing is a setting of the queue.
func TestFairnessOverHTTP(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	post := func(path, body string, want int) string {
		t.Helper()
		a := n.send("POST", "/api/v1"+path, n.admin, body)
		if a.status != want {
			t.Fatalf("%s %s: %d %s", path, body, a.status, a.body)
		}
		return string(a.body)
	}
	post("/limit-rules", `{"queue":"q","key":"noisy","max_concurrency":2}`, 201)
	for i := range 5 {
		post("/enqueue", fmt.Sprintf(`{"queue":"q","payload":"noisy%d","fairness_key":"noisy"}`, i), 201)
	}
	post("/enqueue", `{"queue":"q","payload":"quiet","fairness_key":"quiet","fairness_weight":2}`, 201)
	got := post("/fetch/batch", `{"queues":["q"],"count":9,"timeout":0}`, 200)
	if strings.Count(got, `"payload":"noisy`) != 2 || strings.Count(got, `"payload":"quiet"`) != 1 {
		t.Errorf("fetched %s", got)
	}
	for body, want := range map[string]string{`{"priority_ageing":"5m"}`: `"priority_ageing_ms":300000`, `{"priority_ageing":"0s"}`: `"priority_ageing_ms":null`, `{}`: `"priority_ageing_ms":null`} {
		if a := n.send("PUT", "/api/v1/queues/aged", n.admin, body); a.status != 200 || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a := n.send("PUT", "/api/v1/queues/aged", n.admin, `{"priority_ageing":"169h"}`); a.status != 400 || !strings.Contains(string(a.body), "priority_ageing") {
		t.Errorf("too long: %d %s", a.status, a.body)
	}
}
