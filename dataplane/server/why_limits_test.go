package server_test

import (
	"fmt"
	"testing"

	"github.com/corvo/corvo/api"
)

// Each limit that keeps a job is named, by the code that enforces it.
func TestWhyALimitKeepsAJob(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for _, c := range []struct {
		queue, method, path, declare string // the declaration
		first                        string // a job that is fetched before; empty for none
		job                          string
		reason, name                 string
		state                        string
	}{
		{"k1", "POST", "/limit-rules", `{"queue":"k1","key":"*","paused":true}`, "", `"fairness_key":"a"`, "key_paused", "k1/*", "pending"},
		{"k2", "POST", "/limit-rules", `{"queue":"k2","key":"a","max_concurrency":1}`, `"fairness_key":"a"`, `"fairness_key":"a"`, "key_concurrency", "k2/a", "pending"},
		{"k3", "POST", "/limit-rules", `{"queue":"k3","key":"a","rate_limit":1,"rate_window":"1h"}`, `"fairness_key":"a"`, `"fairness_key":"a"`, "key_rate", "k3/a", "pending"},
		{"b1", "PUT", "/budgets/queue/b1", `{"daily_usd":1,"default_reserve_usd":0.6,"on_exceed":"throttle"}`, `"tags":{}`, `"tags":{}`, "budget", "queue/b1", "pending"},
		{"b2", "PUT", "/budgets/queue/b2", `{"daily_usd":1,"default_reserve_usd":0.6}`, `"tags":{}`, `"tags":{}`, "held", "queue/b2", "held"},
		{"p1", "POST", "/approval-policies", `{"name":"ask","queue":"p1"}`, "", `"tags":{}`, "held", "", "held"},
	} {
		a := n.send(c.method, "/api/v1"+c.path, n.admin, c.declare)
		if a.status != 200 && a.status != 201 {
			t.Fatalf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
		if c.first != "" {
			n.enqueued(fmt.Sprintf(`{"queue":%q,%s}`, c.queue, c.first))
			n.take(c.queue)
		}
		id := n.enqueued(fmt.Sprintf(`{"queue":%q,%s}`, c.queue, c.job))
		n.listen(c.queue) // a fetch that finds nothing
		w := n.why(id)
		equal(t, c.queue+": state", w.State, c.state)
		if len(w.Reasons) == 0 {
			t.Fatalf("%s: there is no reason, want %s", c.queue, c.reason)
		}
		wantFields(t, c.queue, w.Reasons[0], func(want *api.WhyReason) {
			want.Reason = c.reason
			if c.name != "" {
				want.Name = c.name
			}
		})
		present(t, c.queue+": message", w.Reasons[0].Message)
	}
}

// A job's position in line counts only jobs of its own fairness key, because the others do not go before it.
func TestWhyAKeyedJobIsNotFirst(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for range 3 {
		n.enqueued(`{"queue":"q","fairness_key":"noisy"}`)
	}
	n.enqueued(`{"queue":"q","fairness_key":"quiet"}`)
	w := n.why(n.enqueued(`{"queue":"q","fairness_key":"quiet"}`))
	if at := w.Position; at == nil || *at != (api.WhyPosition{Ahead: 1, Of: 2}) {
		t.Errorf("position %+v, want 1 ahead of 2", w.Position)
	}
}
