package client

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Traces pass through jobs by the API of OpenTelemetry alone, so a program without an SDK pays almost nothing
// and still passes its trace on.

// scope is the instrumentation scope of the spans of a worker.
const scope = "github.com/corvo/corvo/api/client"

var w3c propagation.TraceContext

// tracerOf returns the tracer of a provider; nil means the global provider.
func tracerOf(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return p.Tracer(scope)
}

// traced puts the span of the context into the headers of a request. The server stores it with an
// enqueued job.
func traced(ctx context.Context, h http.Header) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		w3c.Inject(ctx, propagation.HeaderCarrier(h))
	}
}

// withSpanOf returns ctx with the span of another context.
func withSpanOf(ctx, of context.Context) context.Context {
	if of == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(of))
}

// headers are the headers of a job as a propagation.TextMapCarrier.
type headers map[string]string

func (h headers) Get(key string) string {
	for name, value := range h {
		if strings.EqualFold(name, key) {
			return value
		}
	}
	return ""
}

// Set completes propagation.TextMapCarrier. A propagator that extracts does not call it.
func (h headers) Set(key, value string) { h[key] = value }

// Keys returns the names of the headers.
func (h headers) Keys() (names []string) {
	for name := range h {
		names = append(names, name)
	}
	return names
}

// beginProcess begins the span of a handler as a child of the span that enqueued the job, so that one
// trace leads from the enqueue through all attempts.
func beginProcess(ctx context.Context, t trace.Tracer, j *Job) (context.Context, trace.Span) {
	ctx = w3c.Extract(trace.ContextWithSpan(ctx, nil), headers(j.Headers))
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("messaging.system", "corvo"),
			attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", j.Queue),
			attribute.String("messaging.message.id", j.JobID),
			attribute.Int("corvo.job.attempt", j.Attempt),
		),
	}
	if from := trace.SpanContextFromContext(ctx); from.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	return t.Start(ctx, "process "+j.Queue, options...)
}

// endProcess ends the span of a handler.
func endProcess(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		span.RecordError(err)
	}
	span.End()
}
