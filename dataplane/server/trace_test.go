package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/telemetry/otlptest"
	"github.com/corvo/corvo/tenancy"
)

// Three spans of a client's trace, and a trace that is not sampled.
const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	notSampled  = "00-11111111111111111111111111111111-2222222222222222-00"
)

func step(n int) (spanID, traceparent string) {
	spanID = fmt.Sprintf("%016x", n)
	return spanID, "00-" + clientTrace + "-" + spanID + "-01"
}

// tracedNode starts an open node whose spans go to a receiver; "" sends none.
func tracedNode(t *testing.T, endpoint string) *node {
	t.Helper()
	ctx := context.Background()
	traces, err := telemetry.OpenTracing(ctx, telemetry.TraceConfig{
		Endpoint: endpoint, Service: "corvo", Interval: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := traces.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return serveNode(t, server.OpenForTest(t, host.Config{Tracer: traces.Provider()}, host.Spec{}, func(c *server.Config) {
		c.Dev, c.Tracer, c.EventHeartbeat = true, traces.Provider(), 0
	}))
}

// below waits for a span with a name and a parent.
func below(r *otlptest.Receiver, parent otlptest.Span, name string) otlptest.Span {
	return r.Await(name, func(s otlptest.Span) bool { return s.ParentID == parent.SpanID })
}

// under waits for the span of a request that a client's span sent.
func under(r *otlptest.Receiver, spanID, name string) otlptest.Span {
	return r.Await(name, func(s otlptest.Span) bool { return s.ParentID == spanID && s.TraceID == clientTrace })
}

func wantAttributes(t *testing.T, s otlptest.Span, want map[string]any) {
	t.Helper()
	for key, value := range want {
		if s.Attributes[key] != value {
			t.Errorf("span %q: %s is %v, want %v", s.Name, key, s.Attributes[key], value)
		}
	}
}

// committed checks that the trace shows a span's op in the log.
func committed(t *testing.T, r *otlptest.Receiver, s otlptest.Span) {
	t.Helper()
	commit := below(r, s, "commit")
	apply := below(r, commit, "apply")
	equal(t, "the trace of the commit of "+s.Name, commit.TraceID, s.TraceID)
	equal(t, "the trace of the apply of "+s.Name, apply.TraceID, s.TraceID)
	equal(t, "the group of "+s.Name, commit.Attributes["corvo.group"], "default/0")
	equal(t, "the entry of "+s.Name, apply.Attributes["corvo.entry.index"], commit.Attributes["corvo.entry.index"])
}

// A trace shows an agent's job from its enqueue to its ack, across processes, with its waits and its cost.
func TestAJobIsFollowed(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	n := tracedNode(t, r.URL())
	enqueued, enqueuedBy := step(1)
	fetched, fetchedBy := step(2)
	acked, ackedBy := step(3)

	made := answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"llm","headers":{"x":"1"}}`,
		"traceparent: "+enqueuedBy, "tracestate: vendor=a")
	got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["other","llm"]}`, "traceparent: "+fetchedBy)
	want := api.Strings{"x": "1", "traceparent": enqueuedBy, "tracestate": "vendor=a"}
	equal(t, "the job's headers", got.Headers, want)
	answers[api.Status](n, 200, "POST", "/ack/"+got.JobID, `{"lease_token":"`+got.LeaseToken+`","usage":{"input_tokens":120,"output_tokens":30,
		"cache_read_tokens":7,"model":"m-1","provider":"anthropic","cost_usd":0.25}}`, "traceparent: "+ackedBy)

	request := under(r, enqueued, "POST /api/v1/enqueue")
	wantAttributes(t, request, map[string]any{"http.route": "/api/v1/enqueue", "http.response.status_code": int64(201)})
	produce := below(r, request, "enqueue llm")
	wantAttributes(t, produce, map[string]any{
		"messaging.system": "corvo", "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
		"messaging.destination.name": "llm", "messaging.message.id": made.JobID, "corvo.namespace": string(tenancy.Default),
	})
	equal(t, "the request's kind", request.Kind, "server")
	equal(t, "the request's service", request.Resource["service.name"], "corvo")
	equal(t, "the enqueue's kind", produce.Kind, "producer")
	equal(t, "the enqueue's state", produce.TraceState, "vendor=a")
	committed(t, r, produce)

	from := []otlptest.Link{{TraceID: clientTrace, SpanID: enqueued}}
	fetch := below(r, under(r, fetched, "POST /api/v1/fetch"), "fetch llm")
	wantAttributes(t, fetch, map[string]any{
		"messaging.operation.name": "fetch", "messaging.operation.type": "receive", "messaging.destination.name": "llm",
		"messaging.message.id": made.JobID, "corvo.job.attempt": int64(1),
	})
	if fetch.Kind != "consumer" || !slices.Equal(fetch.Links, from) {
		t.Errorf("a fetch is %s, linked to %v", fetch.Kind, fetch.Links)
	}
	committed(t, r, fetch)

	ack := below(r, under(r, acked, "POST /api/v1/ack/{job_id}"), "ack llm")
	wantAttributes(t, ack, map[string]any{
		"messaging.operation.name": "ack", "messaging.operation.type": "settle", "messaging.message.id": made.JobID, "corvo.job.attempt": int64(1),
		"gen_ai.usage.input_tokens": int64(120), "gen_ai.usage.output_tokens": int64(30), "gen_ai.usage.cache_read.input_tokens": int64(7),
		"gen_ai.request.model": "m-1", "gen_ai.provider.name": "anthropic", "corvo.cost_nano_usd": int64(250_000_000),
	})
	if ack.Kind != "consumer" || !slices.Equal(ack.Links, from) {
		t.Errorf("an ack is %s, linked to %v", ack.Kind, ack.Links)
	}
	committed(t, r, ack)
}

// A job keeps its trace after a failure, and the trace shows the failure.
func TestARetryKeepsItsTrace(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	n := tracedNode(t, r.URL())
	enqueued, enqueuedBy := step(1)
	_, failedBy := step(2)
	answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"q","retry_backoff":"none"}`, "traceparent: "+enqueuedBy)
	for attempt := 1; attempt <= 3; attempt++ {
		got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["q"],"timeout":60}`)
		if got.Attempt != attempt || got.Headers["traceparent"] != enqueuedBy {
			t.Fatalf("attempt %d: %+v", attempt, got)
		}
		answers[api.FailResponse](n, 200, "POST", "/fail/"+got.JobID,
			`{"error":"no","lease_token":"`+got.LeaseToken+`","usage":{"input_tokens":5}}`, "traceparent: "+failedBy)
	}
	for attempt, became := range map[int]string{1: "retrying", 3: "dead"} {
		fail := r.Await("fail q", func(s otlptest.Span) bool { return s.Attributes["corvo.job.attempt"] == int64(attempt) })
		wantAttributes(t, fail, map[string]any{"corvo.job.state": became, "gen_ai.usage.input_tokens": int64(5), "messaging.operation.type": "settle"})
		equal(t, "the fail's kind", fail.Kind, "consumer")
		equal(t, "the fail's status", fail.Status, "unset")
		if len(fail.Links) != 1 || fail.Links[0].SpanID != enqueued {
			t.Errorf("the fail's links are %+v, want one to %s", fail.Links, enqueued)
		}
		committed(t, r, fail)
	}
}

// Jobs of clients without traces get a trace of the server.
func TestOwnTraceIsStored(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	n := tracedNode(t, r.URL())
	answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"q"}`, "traceparent: garbage", "tracestate: vendor=a")
	got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["q"]}`)
	produce := r.Await("enqueue q", nil)
	equal(t, "the job's headers", got.Headers, api.Strings{"traceparent": produce.Traceparent()})
	fetch := r.Await("fetch q", nil)
	if fetch.TraceID == produce.TraceID || len(fetch.Links) != 1 || fetch.Links[0] != (otlptest.Link{TraceID: produce.TraceID, SpanID: produce.SpanID}) {
		t.Errorf("the fetch is of trace %s with links %v", fetch.TraceID, fetch.Links)
	}
}

// A gateway's span lies between the client's and the server's, and the job keeps the client's.
func TestThroughAGateway(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	n := tracedNode(t, r.URL())
	gateway, gatewaySpan := step(8)
	client, clientSpan := step(1)
	for given, want := range map[string]string{clientSpan: client, "": ""} {
		answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"q"}`, "traceparent: "+gatewaySpan, telemetry.ClientHeader+": "+given)
		got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["q"]}`)
		produce := r.Await("enqueue q", func(s otlptest.Span) bool { return s.Attributes["messaging.message.id"] == got.JobID })
		request := r.Await("POST /api/v1/enqueue", func(s otlptest.Span) bool { return s.SpanID == produce.ParentID })
		if want == "" {
			want = produce.SpanID // the client has no trace, so the job has the server's
		}
		if request.ParentID != gateway || request.TraceID != clientTrace || got.Headers["traceparent"] != "00-"+clientTrace+"-"+want+"-01" {
			t.Errorf("below %s, the job has %v:\n%s", gateway, got.Headers, otlptest.Text([]otlptest.Span{request, produce}))
		}
	}
}

// A batch request is one span of the producer. The consumer's span links to the span of every job.
func TestBatchesAreFollowed(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	n := tracedNode(t, r.URL())
	enqueued, enqueuedBy := step(1)
	other, otherBy := step(7)
	fetched, fetchedBy := step(2)
	acked, ackedBy := step(3)
	answers[api.EnqueueBatchResponse](n, 201, "POST", "/enqueue/batch",
		`{"jobs":[{"queue":"a"},{"queue":"b","headers":{"Traceparent":"`+otherBy+`"}},{"queue":"a","headers":{"traceparent":"mine"}}]}`,
		"traceparent: "+enqueuedBy, "tracestate: v=1")
	var jobs api.FetchBatchResponse
	for _, q := range []string{"a", "b"} {
		some := answers[api.FetchBatchResponse](n, 200, "POST", "/fetch/batch", `{"queues":["`+q+`"],"count":10}`, "traceparent: "+fetchedBy)
		jobs.Jobs = append(jobs.Jobs, some.Jobs...)
	}
	if len(jobs.Jobs) != 3 {
		t.Fatalf("fetched %+v", jobs)
	}
	// A job's own headers have precedence, even if they are invalid.
	for i, want := range []api.Strings{{"traceparent": enqueuedBy, "tracestate": "v=1"}, {"traceparent": "mine"}, {"Traceparent": otherBy}} {
		equal(t, fmt.Sprintf("the headers of job %d", i), jobs.Jobs[i].Headers, want)
	}
	var items []string
	for i, j := range jobs.Jobs {
		usage := fmt.Sprintf(`{"input_tokens":%d,"model":"m%d","provider":"p","cost_usd":0.000000001}`, i+1, i)
		items = append(items, fmt.Sprintf(`{"job_id":%q,"lease_token":%q,"usage":%s}`, j.JobID, j.LeaseToken, usage))
	}
	answers[api.AckBatchResponse](n, 200, "POST", "/ack/batch", `{"acks":[`+strings.Join(items, ",")+`,{"job_id":"none"}]}`, "traceparent: "+ackedBy)

	produce := below(r, under(r, enqueued, "POST /api/v1/enqueue/batch"), "enqueue")
	wantAttributes(t, produce, map[string]any{"messaging.batch.message_count": int64(3), "messaging.destination.name": nil, "messaging.message.id": nil})
	from := otlptest.Link{TraceID: clientTrace, SpanID: enqueued}
	fromOther := otlptest.Link{TraceID: clientTrace, SpanID: other}
	for name, want := range map[string]struct {
		count int64
		links []otlptest.Link
	}{"fetch a": {2, []otlptest.Link{from}}, "fetch b": {1, []otlptest.Link{fromOther}}} {
		fetch := r.Await(name, nil)
		wantAttributes(t, fetch, map[string]any{"messaging.batch.message_count": want.count, "messaging.message.id": nil})
		if !slices.Equal(fetch.Links, want.links) {
			t.Errorf("%s is linked to %v, want %v", name, fetch.Links, want.links)
		}
	}
	under(r, fetched, "POST /api/v1/fetch/batch")
	ack := below(r, under(r, acked, "POST /api/v1/ack/batch"), "ack")
	wantAttributes(t, ack, map[string]any{
		"messaging.batch.message_count": int64(4), "gen_ai.usage.input_tokens": int64(6), "corvo.cost_nano_usd": int64(3),
		"gen_ai.request.model": nil, "gen_ai.provider.name": "p",
	})
	if !slices.Equal(ack.Links, []otlptest.Link{from, fromOther}) {
		t.Errorf("the ack is linked to %v", ack.Links)
	}
	committed(t, r, ack)
}

// The trace shows a refusal with its code.
func TestRefusalsAreSeen(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	n := tracedNode(t, r.URL())
	acked, ackedBy := step(3)
	const none = "job_00000000000000000000000000"
	answers[problem](n, 404, "POST", "/ack/"+none, `{}`, "traceparent: "+ackedBy)
	ack := below(r, under(r, acked, "POST /api/v1/ack/{job_id}"), "ack")
	wantAttributes(t, ack, map[string]any{"error.type": "NOT_FOUND", "messaging.message.id": none, "corvo.job.attempt": nil})
	if ack.Status != "error" || len(ack.Links) != 0 {
		t.Errorf("a refused ack: %+v", ack)
	}
}

// The polls of idle workers leave no spans, so that they do not fill trace stores, unless the client traces
// them.
func TestEmptyPolls(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	n := tracedNode(t, r.URL())
	for _, header := range [][]string{{}, {"traceparent: garbage"}, {"traceparent: " + notSampled}} {
		answers[struct{}](n, 204, "POST", "/fetch", `{"queues":["q"],"timeout":0}`, header...)
		answers[api.FetchBatchResponse](n, 200, "POST", "/fetch/batch", `{"queues":["q"],"timeout":0}`, header...)
	}
	fetched, fetchedBy := step(2)
	// A gateway's span does not mean that the client traces the request.
	answers[struct{}](n, 204, "POST", "/fetch", `{"queues":["q"],"timeout":0}`, "traceparent: "+fetchedBy, telemetry.ClientHeader+": ")
	answers[struct{}](n, 204, "POST", "/fetch", `{"queues":["q"],"timeout":0}`, "traceparent: "+fetchedBy)
	fetch := below(r, under(r, fetched, "POST /api/v1/fetch"), "fetch q")
	if spans := r.Spans(); fetch.Status != "unset" || len(spans) != 2 {
		t.Errorf("received\n%s", otlptest.Text(spans))
	}
}

// No span is sent for a trace that its client did not sample, or if tracing is off. The jobs' headers are
// stored in both cases.
func TestHeadersTravelWithoutSpans(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	_, sampled := step(1)
	for name, c := range map[string]struct{ endpoint, given string }{
		"sampled=0": {r.URL(), notSampled},
		"off":       {"", sampled},
	} {
		n := tracedNode(t, c.endpoint)
		header := []string{"traceparent: " + c.given, "tracestate: v=1"}
		answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"q"}`, header...)
		got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["q"]}`, header...)
		equal(t, name, got.Headers, api.Strings{"traceparent": c.given, "tracestate": "v=1"})
		answers[api.Status](n, 200, "POST", "/ack/"+got.JobID, `{"lease_token":"`+got.LeaseToken+`"}`, header...)
		if c.endpoint == "" {
			answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"q"}`, "traceparent: garbage", "tracestate: v=1")
			if got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["q"]}`); got.Headers != nil {
				t.Errorf("a malformed traceparent was stored: %v", got.Headers)
			}
			continue
		}
		// The next request is sampled, and its span ends the wait for spans that must not come.
		answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"q"}`)
		r.Await("POST /api/v1/enqueue", nil)
		for _, s := range r.Spans() {
			if strings.Contains(notSampled, s.TraceID) {
				t.Errorf("%s: received %+v", name, s)
			}
		}
	}
}

// A client may use all headers of a job: the server then adds none of its own.
func TestFullHeaders(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "")
	_, given := step(1)
	for own, want := range map[int][]string{
		job.MaxHeaders - 2: {given, "v=1"},
		job.MaxHeaders - 1: {given, ""},
		job.MaxHeaders:     {"", ""},
	} {
		body := api.EnqueueRequest{Queue: fmt.Sprintf("q%d", own), Headers: api.Strings{}}
		for i := range own {
			body.Headers[fmt.Sprintf("h%02d", i)] = "v"
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		answers[api.EnqueueResponse](n, http.StatusCreated, "POST", "/enqueue", string(text), "traceparent: "+given, "tracestate: v=1")
		got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["`+body.Queue+`"]}`)
		what := fmt.Sprintf("a job with %d headers of its own: ", own)
		equal(t, what+"traceparent", got.Headers["traceparent"], want[0])
		equal(t, what+"tracestate", got.Headers["tracestate"], want[1])
		equal(t, what+"h00", got.Headers["h00"], "v")
		if len(got.Headers) > job.MaxHeaders {
			t.Errorf("%s%d headers", what, len(got.Headers))
		}
	}
}
