package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// why asks why a job does not run.
func (n *node) why(id string) api.Why {
	n.t.Helper()
	return answers[api.Why](n, 200, "GET", "/jobs/"+id+"/why", "")
}

// wantReasons checks for exactly these reasons, in order.
func wantReasons(t *testing.T, w api.Why, want ...string) {
	t.Helper()
	var got []string
	for _, r := range w.Reasons {
		got = append(got, r.Reason)
		if r.Message == "" {
			t.Errorf("%s says nothing to people", r.Reason)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("a %s job of %s: reasons %v, want %v", w.State, w.Queue, got, want)
	}
}

// listen sends a fetch of a worker to a queue without jobs.
func (n *node) listen(queue string) {
	n.t.Helper()
	answers[api.FetchBatchResponse](n, 200, "POST", "/fetch/batch", fmt.Sprintf(`{"queues":[%q],"worker_id":"w1","timeout":0}`, queue))
}

func TestWhyAQueueKeepsAJob(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for _, c := range []struct {
		name, settings string
		before         func(queue string)
		want           []string
		until          bool
	}{
		{"paused", `{"paused":true}`, nil, []string{"queue_paused", "no_worker"}, false},
		{"draining", `{}`, func(q string) { answers[api.Status](n, 200, "POST", "/queues/"+q+"/drain", "") }, []string{"queue_draining", "no_worker"}, false},
		{"full", `{"max_concurrency":1}`, func(q string) { n.enqueued(`{"queue":"full"}`); n.take(q) }, []string{"queue_concurrency"}, false},
		{"throttled", `{"rate_limit":1,"rate_window_ms":3600000}`, func(q string) { n.enqueued(`{"queue":"throttled"}`); n.take(q) }, []string{"queue_rate"}, true},
		{"both", `{"paused":true,"max_concurrency":0}`, nil, []string{"queue_paused", "no_worker"}, false},
		{"free", `{}`, n.listen, []string{"ready"}, false},
		{"alone", `{}`, nil, []string{"no_worker"}, false},
	} {
		answers[api.Queue](n, 200, "PUT", "/queues/"+c.name, c.settings)
		if c.before != nil {
			c.before(c.name)
		}
		w := n.why(n.enqueued(fmt.Sprintf(`{"queue":%q}`, c.name)))
		wantReasons(t, w, c.want...)
		wantFields(t, c.name, w, func(want *api.Why) { want.Waiting, want.State, want.Queue = true, "pending", c.name })
		present(t, c.name+": workers", w.Workers)
		if got := w.Reasons[0]; got.Name != c.name || (got.Until != nil) != c.until {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestWhyAJobIsNotFirst(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	var ids []string
	for range 3 {
		ids = append(ids, n.enqueued(`{"queue":"q"}`))
	}
	urgent := n.enqueued(`{"queue":"q","priority":"critical"}`)
	n.enqueued(`{"queue":"p","priority":"critical"}`)
	for id, ahead := range map[string]int64{urgent: 0, ids[0]: 1, ids[2]: 3} {
		equal(t, "position", n.why(id).Position, &api.WhyPosition{Ahead: ahead, Of: 4})
	}
	wantReasons(t, n.why(ids[1]), "behind_others", "no_worker")
}

func TestWhyAProviderKeepsAJob(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	answers[api.Provider](n, 201, "POST", "/providers", `{"name":"p","rpm_limit":1}`)
	n.enqueued(`{"queue":"q","provider":"p"}`)
	n.take("q")
	parked, next := n.enqueued(`{"queue":"q","provider":"p"}`), n.enqueued(`{"queue":"q","provider":"p"}`)
	w := n.why(next) // the job is not at the gate yet
	wantReasons(t, w, "provider_limit", "behind_others")
	n.listen("q") // now both are
	w = n.why(parked)
	wantReasons(t, w, "provider_limit")
	if r := w.Reasons[0]; r.Name != "p" || r.Until == nil || !strings.Contains(r.Message, "1 of 1 requests") {
		t.Errorf("%+v", r)
	}
	equal(t, "position", w.Position, &api.WhyPosition{Gate: "p", Of: 2})
	w = n.why(next)
	wantReasons(t, w, "provider_limit", "behind_others")
	if w.Position.Ahead != 1 || w.Position.Gate != "p" {
		t.Errorf("position %+v", w.Position)
	}
}

func TestWhyAJobIsNotPending(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	first := n.enqueued(`{"queue":"dep"}`)
	later := n.why(n.enqueued(`{"queue":"q","scheduled_at":"2030-01-01T00:00:00Z"}`))
	wantReasons(t, later, "not_due")
	equal(t, "until", later.Reasons[0].Until, ptr(api.Time("2030-01-01T00:00:00Z")))
	wantFields(t, "a scheduled job", later, func(want *api.Why) { want.Waiting, want.Position, want.Workers = true, nil, nil })

	blocked := n.why(n.enqueued(fmt.Sprintf(`{"queue":"q","depends_on":[%q]}`, first)))
	wantReasons(t, blocked, "dependencies")
	if len(blocked.DependsOn) != 1 || blocked.DependsOn[0].JobID != first || *blocked.DependsOn[0].State != "pending" {
		t.Errorf("it depends on %+v", blocked.DependsOn)
	}

	held := n.enqueued(`{"queue":"q"}`)
	answers[api.Status](n, 200, "POST", "/jobs/"+held+"/hold", `{"reason":"look at it"}`)
	w := n.why(held)
	wantReasons(t, w, "held")
	if m := w.Reasons[0].Message; !strings.HasPrefix(m, "look at it: approve it") {
		t.Errorf("held: %q", m)
	}

	failing := n.enqueued(`{"queue":"f","retry_base_delay":"1h","retry_max_delay":"1h"}`)
	n.take("f")
	answers[api.FailResponse](n, 200, "POST", "/fail/"+failing, `{"error":"boom"}`)
	w = n.why(failing)
	wantReasons(t, w, "retry_delay")
	wantFields(t, "a job that is to be retried", w, func(want *api.Why) { want.LastError, want.Outcome = ptr("boom"), ptr("failed") })
	present(t, "until", w.Reasons[0].Until)

	active := n.enqueued(`{"queue":"a"}`)
	n.take("a")
	w = n.why(active)
	wantReasons(t, w, "running")
	if w.Waiting || w.Reasons[0].Name != "w1" || w.Reasons[0].Until == nil {
		t.Errorf("%+v", w)
	}
	answers[api.Status](n, 200, "POST", "/jobs/"+active+"/cancel", "")
	wantReasons(t, n.why(active), "cancelling")

	done := n.enqueued(`{"queue":"d"}`)
	n.take("d")
	answers[api.Status](n, 200, "POST", "/ack/"+done, "")
	w = n.why(done)
	wantReasons(t, w, "settled")
	if w.Waiting || w.State != "completed" || *w.Outcome != "completed" {
		t.Errorf("%+v", w)
	}
}

// A retry grants all attempts anew, so the reason counts the attempts since then.
func TestWhyCountsTheAttemptsSinceARetry(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	id := n.enqueued(`{"queue":"q","max_retries":2,"retry_base_delay":"1h","retry_max_delay":"1h"}`)
	fail := func() {
		t.Helper()
		n.take("q")
		answers[api.FailResponse](n, 200, "POST", "/fail/"+id, `{"error":"boom"}`)
		w := n.why(id)
		wantReasons(t, w, "retry_delay")
		if got := w.Reasons[0].Message; !strings.HasPrefix(got, "attempt 1 of 2 failed") {
			t.Errorf("the message is %q, want attempt 1 of 2", got)
		}
	}
	fail()
	answers[api.Status](n, 200, "POST", "/jobs/"+id+"/cancel", "")
	answers[api.Status](n, 200, "POST", "/jobs/"+id+"/retry", "")
	fail()
}

func TestWhyOfNobodysJob(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	id := n.enqueued(`{"queue":"q"}`)
	other := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"p"}})
	for _, c := range []struct{ key, id string }{{n.admin, "job_00000000000000000000000000"}, {n.admin, "x"}, {other, id}} {
		if a := n.send("GET", "/api/v1/jobs/"+c.id+"/why", c.key, ""); a.problem(t).Code != api.NotFound {
			t.Errorf("%s: %d %s", c.id, a.status, a.body)
		}
	}
}
