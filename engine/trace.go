package engine

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/telemetry"
)

// tracer makes the spans of entries: a commit on the proposing member, and below it an apply on each replica.
// An entry's header carries the trace context. It has no room for a tracestate, so a tracestate is lost here.
type tracer struct {
	spans trace.Tracer
	group string
}

// newTracer returns nil if no tracer is configured.
func newTracer(c *Config) *tracer {
	spans := telemetry.Tracer(c.Tracer)
	if spans == nil {
		return nil
	}
	return &tracer{spans: spans, group: c.Group}
}

// Of implements pipeline.Tracer. It ignores spans that are not sampled.
func (t *tracer) Of(ctx context.Context) (of entry.Trace) {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() || !span.IsSampled() {
		return entry.Trace{}
	}
	return traceOf(span)
}

// Begin implements pipeline.Tracer. The commit is a child of the first op's span and is linked to the spans
// of the other ops, which merely share the entry.
func (t *tracer) Begin(proposed []entry.Trace, ops int) pipeline.Span {
	var links []trace.Link
	for _, other := range proposed[1:] {
		if len(links) == telemetry.MaxLinks {
			break
		}
		if other != proposed[0] {
			links = append(links, trace.Link{SpanContext: spanOf(other)})
		}
	}
	ctx := trace.ContextWithSpanContext(context.Background(), spanOf(proposed[0]))
	_, span := t.spans.Start(ctx, telemetry.SpanCommit, trace.WithLinks(links...),
		trace.WithAttributes(telemetry.AttrGroup.String(t.group), telemetry.AttrEntryOps.Int(ops)))
	return commit{span}
}

// commit implements pipeline.Span for an entry.
type commit struct{ span trace.Span }

func (c commit) Trace() entry.Trace {
	if !c.span.IsRecording() {
		return entry.Trace{}
	}
	return traceOf(c.span.SpanContext())
}

func (c commit) End(at entry.Position, err error) {
	if err != nil {
		telemetry.Fault(c.span, string(api.CodeOf(err)), "")
	} else {
		c.span.SetAttributes(telemetry.AttrEntryIndex.Int64(int64(at.Index)))
	}
	c.span.End()
}

// apply implements replica.Config.Trace.
func (t *tracer) apply(of entry.Trace, at entry.Position, ops int) func(error) {
	ctx := trace.ContextWithSpanContext(context.Background(), spanOf(of))
	_, span := t.spans.Start(ctx, telemetry.SpanApply, trace.WithAttributes(
		telemetry.AttrGroup.String(t.group), telemetry.AttrEntryIndex.Int64(int64(at.Index)), telemetry.AttrEntryOps.Int(ops)))
	return func(err error) {
		if err != nil {
			telemetry.Fault(span, string(api.Unhealthy), "")
		}
		span.End()
	}
}

// traceOf converts a span to the trace context of an entry's header.
func traceOf(span trace.SpanContext) (t entry.Trace) {
	traceID, spanID := span.TraceID(), span.SpanID()
	n := copy(t[:], traceID[:])
	n += copy(t[n:], spanID[:])
	t[n] = byte(span.TraceFlags())
	return t
}

// spanOf converts the trace context of an entry's header to a span.
func spanOf(t entry.Trace) trace.SpanContext {
	var c trace.SpanContextConfig
	n := copy(c.TraceID[:], t[:])
	n += copy(c.SpanID[:], t[n:])
	c.TraceFlags = trace.TraceFlags(t[n])
	return trace.NewSpanContext(c)
}
