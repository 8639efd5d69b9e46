package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/telemetry/otlptest"
)

// One trace leads from a job's enqueue through its attempts, even if the node itself sends no spans.
func TestWorkerGoesOnWithATrace(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	traces, err := telemetry.OpenTracing(t.Context(), telemetry.TraceConfig{Endpoint: r.URL(), Service: "app", Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = traces.Close(context.Background()) }()
	n := startNode(t, nil)
	ctx, root := traces.Provider().Tracer("app").Start(t.Context(), "checkout")
	made, err := n.client(n.admin).Enqueue(ctx, api.EnqueueRequest{Queue: "q", RetryBackoff: "none"})
	if err != nil {
		t.Fatal(err)
	}
	root.End()
	n.work(&client.Worker{Tracer: traces.Provider()}, "q", func(ctx context.Context, j *client.Job) error {
		_, span := traces.Provider().Tracer("app").Start(ctx, "charge")
		defer span.End()
		if j.Attempt == 1 {
			return errors.New("no")
		}
		return nil
	})
	n.settled(made.JobID, "completed")
	from := root.SpanContext()
	for attempt, status := range map[int64]string{1: "error", 2: "unset"} {
		process := r.Await("process q", func(s otlptest.Span) bool { return s.Attributes["corvo.job.attempt"] == attempt })
		what := fmt.Sprintf("attempt %d: ", attempt)
		equal(t, what+"trace", process.TraceID, from.TraceID().String())
		equal(t, what+"parent", process.ParentID, from.SpanID().String())
		equal(t, what+"kind", process.Kind, "consumer")
		equal(t, what+"status", process.Status, status)
		equal(t, what+"links", len(process.Links), 1)
		wantAttributes(t, process, map[string]any{"messaging.system": "corvo", "messaging.destination.name": "q", "messaging.message.id": made.JobID})
		r.Await("charge", func(s otlptest.Span) bool { return s.ParentID == process.SpanID })
	}
}

// A program without OpenTelemetry passes on the trace of its job.
func TestWorkerPassesATraceOn(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "")
	_, enqueuedBy := step(1)
	answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"first"}`, "traceparent: "+enqueuedBy)
	c := n.client(n.admin)
	n.work(&client.Worker{}, "first", func(ctx context.Context, _ *client.Job) error {
		if from := trace.SpanContextFromContext(ctx); from.TraceID().String() != clientTrace {
			t.Errorf("the handler is in trace %s", from.TraceID())
		}
		_, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "second"})
		return err
	})
	got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["second"],"timeout":60}`)
	if got.Headers["traceparent"] != enqueuedBy {
		t.Errorf("headers %v, want %s", got.Headers, enqueuedBy)
	}
}
