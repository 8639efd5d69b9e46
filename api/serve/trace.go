package serve

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/telemetry"
)

// beginSpan starts the span of the request, as a child of the span in its traceparent. If the parent is not
// sampled, the new span is not sampled either, and the context holds only ids.
func (c *call) beginSpan(tracer trace.Tracer, r *http.Request) {
	method, known := methodOf(r.Method)
	name := method
	if !known {
		name = "HTTP"
	}
	ctx := telemetry.FromHeader(c.Context, r.Header)
	ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(c.start))
	c.Context = ctx
	if !span.IsRecording() {
		return
	}
	c.span = span
	span.SetAttributes(
		telemetry.AttrHTTPMethod.String(method),
		telemetry.AttrURLPath.String(r.URL.Path),
		telemetry.AttrRequestID.String(c.requestID()),
	)
}

// methodOf returns the value of a span's method attribute: the method, or _OTHER if it is not a standard one,
// so that clients cannot invent values.
func methodOf(method string) (name string, known bool) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method, true
	}
	return "_OTHER", false
}

// matched names the span after the matched route.
func (c *call) matched(e *endpoint) {
	if c.span == nil {
		return
	}
	c.span.SetName(e.pattern())
	c.span.SetAttributes(telemetry.AttrHTTPRoute.String(e.Path))
}

// endSpan ends the span. aborted means that the response was cut off.
func (c *call) endSpan(aborted bool) {
	if c.span == nil || c.spanDropped {
		return
	}
	if c.status != 0 {
		c.span.SetAttributes(telemetry.AttrHTTPStatus.Int(c.status))
	}
	if aborted {
		telemetry.Fault(c.span, "aborted", "the answer was cut off")
	} else if c.status >= http.StatusInternalServerError && !c.faulted {
		telemetry.Fault(c.span, http.StatusText(c.status), "")
	}
	c.span.End()
}

// fault records an error on the span if its status is 5xx. Errors of the client are not faults of the server.
func (c *call) fault(e *api.Error) {
	if c.span == nil || e.Code.Status() < http.StatusInternalServerError {
		return
	}
	c.faulted = true
	telemetry.Fault(c.span, string(e.Code), e.Message)
}

// DropSpan keeps the span of ctx's request from being sent, for repeated polls that find nothing. The span's
// children that have ended are sent anyway, so DropSpan is only for requests without children. Outside of a
// request it does nothing.
func DropSpan(ctx context.Context) {
	if c := callOf(ctx); c != nil {
		c.spanDropped = true
	}
}

// logError logs a failure of the request with its request id, and with its trace id if it has one,
// sampled or not.
func (c *call) logError(message string, about ...any) {
	args := append([]any{"request_id", c.requestID(), "route", c.name()}, about...)
	span := trace.SpanContextFromContext(c.Context)
	if !span.IsValid() {
		span = trace.SpanContextFromContext(telemetry.FromHeader(context.Background(), c.asked))
	}
	if span.IsValid() {
		args = append(args, "trace_id", span.TraceID().String())
	}
	c.server.log.Error(message, args...)
}
