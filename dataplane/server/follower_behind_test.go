package server_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/telemetry"
)

// applyGate is a span processor that stops a node before it applies a traced entry, until the gate is open.
type applyGate struct {
	opened chan struct{}
	open   func()
}

func newApplyGate() *applyGate {
	opened := make(chan struct{})
	return &applyGate{opened, sync.OnceFunc(func() { close(opened) })}
}

func (g *applyGate) OnStart(_ context.Context, span sdk.ReadWriteSpan) {
	if span.Name() == telemetry.SpanApply {
		<-g.opened
	}
}

func (g *applyGate) OnEnd(sdk.ReadOnlySpan)           {}
func (g *applyGate) Shutdown(context.Context) error   { return nil }
func (g *applyGate) ForceFlush(context.Context) error { return nil }

// TestAnswersOfAFollowerThatIsBehind checks the answers that are read from the store of a follower which has not
// applied the request's own forwarded write. The follower does not answer from its old state. After ReadWait it says that
// it is behind, or that the work goes on, and a repeat gets the answer once the follower has caught up.
func TestAnswersOfAFollowerThatIsBehind(t *testing.T) {
	t.Parallel()
	gate := newApplyGate()
	asked := sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())) // only the requests with a sampled traceparent
	members := startTracedPeers(t, 1, map[string]trace.TracerProvider{
		"a": sdk.NewTracerProvider(asked), "b": sdk.NewTracerProvider(asked, sdk.WithSpanProcessor(gate)),
	})
	t.Cleanup(gate.open) // before the members close
	leader, behind := members[0], members[1]
	for _, queue := range []string{"cleared", "deleted", "drained"} {
		leader.enqueue(queue)
	}
	last := leader.enqueue("last")
	behind.do("GET", "/api/v1/jobs/"+last+"?consistency=strong", "", 200, nil)
	_, traced := step(1)
	headers := func(key string) []string { return []string{"traceparent: " + traced, "Idempotency-Key: " + key} }

	// The rule comes first, because its handler reads strongly before the write, which nothing may delay yet.
	const rule = `{"queue":"ruled","max_concurrency":3}`
	behind.server.Config().ReadWait = 500 * time.Millisecond
	a := behind.send("PUT", "/api/v1/limit-rules/ruled", behind.admin, rule, headers("rule")...)
	if a.status != 503 || a.problem(t).Code != api.ViewBehind || a.header.Get("Retry-After") == "" {
		t.Errorf("PUT of a limit rule behind its write: %d %s", a.status, a.body)
	}
	leader.do("POST", "/api/v1/fetch", `{"queues":["drained"]}`, 200, nil, "traceparent: "+traced) // the follower does not see the lease

	cases := []struct {
		method, path, body string
		behind             int
		says               string // a status, or the code of an error
		then               string // the status once the follower has caught up
	}{
		{"PUT", "/queues/new", `{"paused":true}`, 503, string(api.ViewBehind), "paused"},
		{"POST", "/queues/cleared/clear", "", 202, "clearing", "cleared"},
		{"DELETE", "/queues/deleted?confirm=true", "", 202, "deleting", "deleted"},
		{"POST", "/queues/drained/drain", "", 200, "draining", "draining"},
		{"POST", "/queues/unseen/drain", "", 200, "draining", "drained"},
	}
	// summary is the part of the answers that the cases check.
	type summary struct {
		Status  string `json:"status"`
		Code    string `json:"code"`
		Removed int    `json:"removed"`
	}
	behind.server.Config().ReadWait = time.Millisecond
	var all sync.WaitGroup
	for _, c := range cases {
		all.Go(func() {
			a := behind.send(c.method, "/api/v1"+c.path, behind.admin, c.body, headers(c.path)...)
			var got summary
			if err := json.Unmarshal(a.body, &got); err != nil || a.status != c.behind || got.Status+got.Code != c.says {
				t.Errorf("%s %s behind its write: %d %s, want %d %s", c.method, c.path, a.status, a.body, c.behind, c.says)
			}
		})
	}
	all.Wait()

	behind.server.Config().ReadWait = time.Minute
	gate.open()
	var ruled api.LimitRule
	behind.do("PUT", "/api/v1/limit-rules/ruled", rule, 200, &ruled, headers("rule")...)
	if ruled.MaxConcurrency == nil || *ruled.MaxConcurrency != 3 {
		t.Errorf("the repeated rule is %+v", ruled)
	}
	for _, c := range cases {
		var got summary
		behind.do(c.method, "/api/v1"+c.path, c.body, 200, &got, headers(c.path)...)
		if got.Status != c.then {
			t.Errorf("%s %s again: %+v, want %s", c.method, c.path, got, c.then)
		}
		if c.then == "cleared" && got.Removed != 1 {
			t.Errorf("the repeated clear says it removed %d of 1", got.Removed)
		}
	}
}
