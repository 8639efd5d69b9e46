package telemetry

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of all our spans.
const Scope = "github.com/corvo/corvo"

// The names of spans. Spans that handle jobs follow OpenTelemetry's conventions for
// messaging: the operation, then the queue if there is exactly one. Spans of requests
// are named by their method and route.
const (
	SpanGateway   = "gateway"        // a tenant's request on its way to a host
	SpanEnqueue   = "enqueue"        // producer: "enqueue <queue>"
	SpanFetch     = "fetch"          // consumer: linked to the spans that enqueued the jobs
	SpanAck       = "ack"            // consumer: linked to the spans that enqueued the jobs
	SpanFail      = "fail"           // like ack
	SpanCommit    = "commit"         // a log entry: from its append until it is durable and applied
	SpanApply     = "apply"          // a log entry, applied to a replica's store
	SpanReconcile = "reconcile"      // one step of the control plane: "reconcile <step>"
	SpanOpenCell  = "open namespace" // a host opens a namespace
	SpanDropCell  = "drop namespace" // a host closes a namespace and deletes its data
)

// The attributes of spans: OpenTelemetry's names where they exist, else our own.
const (
	AttrService         attribute.Key = "service.name"
	AttrServiceVersion  attribute.Key = "service.version"
	AttrServiceInstance attribute.Key = "service.instance.id"

	AttrHTTPMethod attribute.Key = "http.request.method"
	AttrHTTPRoute  attribute.Key = "http.route"
	AttrHTTPStatus attribute.Key = "http.response.status_code"
	AttrURLPath    attribute.Key = "url.path"
	AttrErrorType  attribute.Key = "error.type" // an api.Code, or the kind of failure
	AttrRequestID  attribute.Key = "corvo.request.id"

	AttrMessagingSystem      attribute.Key = "messaging.system" // always MessagingSystem
	AttrOperationName        attribute.Key = "messaging.operation.name"
	AttrOperationType        attribute.Key = "messaging.operation.type"
	AttrDestination          attribute.Key = "messaging.destination.name" // the queue, if there is exactly one
	AttrMessageID            attribute.Key = "messaging.message.id"       // the job, if there is exactly one
	AttrBatchMessageCount    attribute.Key = "messaging.batch.message_count"
	AttrNamespace            attribute.Key = "corvo.namespace"
	AttrJobAttempt           attribute.Key = "corvo.job.attempt" // counts from 1
	AttrJobState             attribute.Key = "corvo.job.state"   // state of the job after the operation
	AttrGroup                attribute.Key = "corvo.group"
	AttrEntryIndex           attribute.Key = "corvo.entry.index"
	AttrEntryOps             attribute.Key = "corvo.entry.ops"
	AttrGenAIProvider        attribute.Key = "gen_ai.provider.name"
	AttrGenAIModel           attribute.Key = "gen_ai.request.model"
	AttrGenAIInputTokens     attribute.Key = "gen_ai.usage.input_tokens"
	AttrGenAIOutputTokens    attribute.Key = "gen_ai.usage.output_tokens"
	AttrGenAICacheReadTokens attribute.Key = "gen_ai.usage.cache_read.input_tokens"
	AttrGenAICacheMadeTokens attribute.Key = "gen_ai.usage.cache_creation.input_tokens"
	AttrCostNanoUSD          attribute.Key = "corvo.cost_nano_usd" // 1e-9 dollars
)

// MessagingSystem is the value of AttrMessagingSystem.
const MessagingSystem = "corvo"

// The kinds of messaging operations.
const (
	OperationSend    = "send"
	OperationReceive = "receive"
	OperationSettle  = "settle"
)

// MaxLinks bounds the links of one span. Further links are left out, so that the span
// of a fetch of many jobs stays small enough to send.
const MaxLinks = 128

// The names of the trace headers, as jobs store them.
const (
	TraceparentHeader = "traceparent"
	TracestateHeader  = "tracestate"
)

// The longest stored trace headers in bytes; longer headers count as malformed. A
// traceparent of version 00 has 55 bytes, and every system must pass on a tracestate of
// 512 bytes.
const (
	MaxTraceparent = 128
	MaxTracestate  = 512
)

var w3c propagation.TraceContext

// Traceparent returns the W3C form of the context's span, or "" without a span.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier[TraceparentHeader]
}

// WithTraceparent makes the span that a traceparent names the parent of later spans. A
// malformed traceparent changes nothing, because a trace is never a reason to refuse work.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return w3c.Extract(ctx, propagation.MapCarrier{TraceparentHeader: traceparent})
}

// ParseTraceparent returns the span that a traceparent names. A malformed traceparent
// yields an invalid span context.
func ParseTraceparent(traceparent string) trace.SpanContext {
	return trace.SpanContextFromContext(WithTraceparent(context.Background(), traceparent))
}

// FromHeader makes the span that a request's header names the parent of later spans. A
// header with no traceparent, or with several, changes nothing.
func FromHeader(ctx context.Context, h http.Header) context.Context {
	// The map is read with the canonical key, because Header.Get would canonicalise it again.
	if len(h["Traceparent"]) != 1 {
		return ctx
	}
	return w3c.Extract(ctx, sent(h))
}

// sent adapts a request's header to a propagator. A tracestate may come in several
// lines, which form one list.
type sent http.Header

func (h sent) Get(key string) string {
	return strings.Join(http.Header(h).Values(key), ",")
}

// Set completes propagation.TextMapCarrier. A propagator that reads does not call it.
func (h sent) Set(key, value string) { http.Header(h).Set(key, value) }

// Keys returns the header's names. A propagator that reads does not call it.
func (h sent) Keys() []string { return propagation.HeaderCarrier(h).Keys() }

// ClientHeader is the header in which a gateway passes on the traceparent of its client unchanged, or empty
// if the client did not send exactly one. The header traceparent names the gateway's own span, the parent of
// later spans. Any client may send ClientHeader, because it only decides which traceparent jobs store and
// which polls get a span.
const ClientHeader = "Corvo-Client-Traceparent"

// ClientTraceparent returns the traceparent that a request's client sent to this process
// or to a gateway before it. It returns "" for none and for several.
func ClientTraceparent(h http.Header) string {
	given, passed := h[ClientHeader]
	if !passed {
		given = h["Traceparent"]
	}
	if len(given) != 1 {
		return ""
	}
	return given[0]
}

// PassOn writes the trace headers of a request that a gateway forwards. out is a copy of the client's header
// in. If ctx has a span, that span becomes the parent, and the client's traceparent moves to ClientHeader.
// PassOn always drops the client's own ClientHeader.
func PassOn(ctx context.Context, in, out http.Header) {
	out.Del(ClientHeader) // the client is not a gateway
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	said := ""
	if given := in["Traceparent"]; len(given) == 1 {
		said = given[0]
	}
	out[ClientHeader] = []string{said}
	out["Traceparent"] = []string{Traceparent(ctx)}
}

// ToHeader names the context's span in the header of a request that the span causes. It
// replaces trace headers that are already set; without a span it changes nothing.
func ToHeader(ctx context.Context, h http.Header) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	h.Del(TraceparentHeader)
	h.Del(TracestateHeader)
	w3c.Inject(ctx, propagation.HeaderCarrier(h))
}

// Sampled reports whether this process records the context's span. If it does not, its
// children are not recorded either and need not be started.
func Sampled(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Begin starts a child of the context's span with the same provider. The caller must
// have checked Sampled.
func Begin(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer(Scope).Start(ctx, name, options...)
}

// Fault marks a span as failed; kind is one of a bounded set of words.
func Fault(span trace.Span, kind, description string) {
	span.SetStatus(codes.Error, description)
	span.SetAttributes(AttrErrorType.String(kind))
}
