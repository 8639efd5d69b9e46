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

// Traces go through jobs by OpenTelemetry's API alone: a program that has no SDK pays
// next to nothing, and passes on the trace it is part of all the same.

// scope is the instrumentation scope of a worker's spans.
const scope = "github.com/corvo/corvo/api/client"

var w3c propagation.TraceContext

// tracerOf makes the spans of a provider; nil: of the global one.
func tracerOf(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return p.Tracer(scope)
}

// traced names the context's span in a request's header: the server has a job keep it.
func traced(ctx context.Context, h http.Header) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		w3c.Inject(ctx, propagation.HeaderCarrier(h))
	}
}

// withSpanOf is ctx with the span of another context.
func withSpanOf(ctx, of context.Context) context.Context {
	if of == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(of))
}

// headers are a job's, as a propagator reads them.
type headers map[string]string

func (h headers) Get(key string) string {
	for name, value := range h {
		if strings.EqualFold(name, key) {
			return value
		}
	}
	return ""
}

// Set and Keys complete propagation.TextMapCarrier; a propagator that reads calls neither.
func (h headers) Set(key, value string) { h[key] = value }

// Keys are the headers' names.
func (h headers) Keys() (names []string) {
	for name := range h {
		names = append(names, name)
	}
	return names
}

// beginProcess begins the span of a handler, as a child of the one that enqueued the job:
// one trace leads from the enqueue through all attempts.
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
