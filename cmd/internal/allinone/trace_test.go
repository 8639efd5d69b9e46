package allinone

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/telemetry/otlptest"
)

// The traces of a caller. Each has a span of the caller as its parent.
const (
	producerTrace  = "11111111111111111111111111111111"
	workerTrace    = "22222222222222222222222222222222"
	namespaceTrace = "33333333333333333333333333333333"
)

// traced returns an option for an HTTP client that sends a traceparent with every request.
func traced(id string) client.Option {
	return client.WithHTTPClient(&http.Client{Transport: sends("00-" + id + "-aaaaaaaaaaaaaaaa-01")})
}

type sends string

func (s sends) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", string(s))
	return http.DefaultTransport.RoundTrip(r)
}

// TestTraces follows a job and a namespace through every part of the cloud by the spans that a real OTLP
// receiver gets.
func TestTraces(t *testing.T) {
	t.Parallel()
	receiver := otlptest.New(t)
	tracing, err := telemetry.OpenTracing(t.Context(), telemetry.TraceConfig{Endpoint: receiver.URL(), Service: "corvo-cloud", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tracing.Close(context.Background()); err != nil {
			t.Errorf("close tracing: %v", err)
		}
	})
	c := start(t, tracing.Provider())
	ctx := t.Context()

	producer, worker := c.client(t, c.Access.APIKey, traced(producerTrace)), c.client(t, c.Access.APIKey, traced(workerTrace))
	if _, err := producer.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	job, err := worker.Fetch(ctx, api.FetchRequest{Queues: []string{"q"}, WorkerID: "w"})
	if err != nil || job == nil {
		t.Fatalf("%+v, %v", job, err)
	}
	if got := job.Headers["traceparent"]; got != "00-"+producerTrace+"-aaaaaaaaaaaaaaaa-01" {
		t.Errorf("the job comes with the traceparent %q", got)
	}
	if err := worker.Ack(ctx, job.JobID, api.AckRequest{LeaseToken: job.LeaseToken, Usage: &api.ReportedUsage{InputTokens: 5, Model: "m"}}); err != nil {
		t.Fatal(err)
	}

	in := func(id string) func(otlptest.Span) bool {
		return func(s otlptest.Span) bool { return s.TraceID == id }
	}
	gateway := receiver.Await(telemetry.SpanGateway, in(producerTrace))
	enqueue := receiver.Await(telemetry.SpanEnqueue+" q", in(producerTrace))
	receiver.Await(telemetry.SpanCommit, in(producerTrace))
	receiver.Await(telemetry.SpanApply, in(producerTrace))
	if gateway.ParentID != "aaaaaaaaaaaaaaaa" {
		t.Errorf("the gateway's span is a child of %q", gateway.ParentID)
	}
	if !descends(receiver.Spans(), enqueue, gateway) {
		t.Errorf("the enqueue is not below the gateway:\n%s", otlptest.Text(receiver.Spans()))
	}
	for _, name := range []string{telemetry.SpanFetch, telemetry.SpanAck} {
		span := awaitPrefix(t, receiver, name, workerTrace)
		if !slices.ContainsFunc(span.Links, func(l otlptest.Link) bool { return l.TraceID == producerTrace }) {
			t.Errorf("%q has no link to its producer: %+v", span.Name, span.Links)
		}
	}

	// One trace leads from the call that creates a namespace to the host that opens it.
	cloud, err := client.NewCloud(c.Endpoint, c.Access.CloudToken, traced(namespaceTrace))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.CreateNamespace(ctx, demo, api.CreateNamespaceRequest{Name: "traced"}); err != nil {
		t.Fatal(err)
	}
	receiver.Await(telemetry.SpanOpenCell, in(namespaceTrace))
	receiver.Await(telemetry.SpanCommit, in(namespaceTrace))
	awaitPrefix(t, receiver, telemetry.SpanReconcile, namespaceTrace)
}

// descends reports whether a span is below another in its trace.
func descends(spans []otlptest.Span, s, ancestor otlptest.Span) bool {
	for range len(spans) {
		if s.ParentID == ancestor.SpanID {
			return true
		}
		i := slices.IndexFunc(spans, func(p otlptest.Span) bool { return p.SpanID == s.ParentID })
		if i < 0 {
			return false
		}
		s = spans[i]
	}
	return false
}

// awaitPrefix waits for a span of a trace whose name begins with a word.
func awaitPrefix(t *testing.T, receiver *otlptest.Receiver, word, id string) (found otlptest.Span) {
	t.Helper()
	if !receiver.WaitFor(func(spans []otlptest.Span) bool {
		i := slices.IndexFunc(spans, func(s otlptest.Span) bool { return s.TraceID == id && strings.HasPrefix(s.Name, word) })
		if i >= 0 {
			found = spans[i]
		}
		return i >= 0
	}) {
		t.Fatalf("no span %q in trace %s:\n%s", word, id, otlptest.Text(receiver.Spans()))
	}
	return found
}
