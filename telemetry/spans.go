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

// The names of spans. Those that handle jobs follow OpenTelemetry's conventions
// for messaging: the operation, then the queue where there is just one. Requests
// are named by their method and route.
const (
	SpanGateway   = "gateway"        // a tenant's request on its way to a host
	SpanEnqueue   = "enqueue"        // producer: "enqueue <queue>"
	SpanFetch     = "fetch"          // consumer: linked to what enqueued the jobs
	SpanAck       = "ack"            // consumer: linked to what enqueued the jobs
	SpanFail      = "fail"           // as ack
	SpanCommit    = "commit"         // an entry: from its append until it is durable and applied
	SpanApply     = "apply"          // an entry in a replica's store
	SpanReconcile = "reconcile"      // one step of the control plane: "reconcile <step>"
	SpanOpenCell  = "open namespace" // a host opens a namespace
	SpanDropCell  = "drop namespace" // a host closes one and deletes its data
)

// The attributes of spans: OpenTelemetry's where it has one, else ours.
const (
	AttrService         attribute.Key = "service.name"
	AttrServiceVersion  attribute.Key = "service.version"
	AttrServiceInstance attribute.Key = "service.instance.id"

	AttrHTTPMethod attribute.Key = "http.request.method"
	AttrHTTPRoute  attribute.Key = "http.route"
	AttrHTTPStatus attribute.Key = "http.response.status_code"
	AttrURLPath    attribute.Key = "url.path"
	AttrErrorType  attribute.Key = "error.type" // an api.Code, or what broke
	AttrRequestID  attribute.Key = "corvo.request.id"

	AttrMessagingSystem      attribute.Key = "messaging.system" // always MessagingSystem
	AttrOperationName        attribute.Key = "messaging.operation.name"
	AttrOperationType        attribute.Key = "messaging.operation.type"
	AttrDestination          attribute.Key = "messaging.destination.name" // the queue, where there is just one
	AttrMessageID            attribute.Key = "messaging.message.id"       // the job, where there is just one
	AttrBatchMessageCount    attribute.Key = "messaging.batch.message_count"
	AttrNamespace            attribute.Key = "corvo.namespace"
	AttrJobAttempt           attribute.Key = "corvo.job.attempt" // counts from 1
	AttrJobState             attribute.Key = "corvo.job.state"   // what became of the job
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

// MessagingSystem is who we are among messaging systems.
const MessagingSystem = "corvo"

// The kinds of messaging operations.
const (
	OperationSend    = "send"
	OperationReceive = "receive"
	OperationSettle  = "settle"
)

// MaxLinks bounds the links of one span. Later ones are left out: a fetch of many
// jobs shows where most of them come from, and stays small enough to send.
const MaxLinks = 128

// The names of the headers a trace travels in, as jobs store them.
const (
	TraceparentHeader = "traceparent"
	TracestateHeader  = "tracestate"
)

// What of them is stored at most, in bytes; longer ones are taken for malformed.
// Version 00 of a traceparent has 55, and a tracestate of 512 is what every system
// passes on.
const (
	MaxTraceparent = 128
	MaxTracestate  = 512
)

var w3c propagation.TraceContext

// Traceparent is the W3C form of the context's span; "" when there is none.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier[TraceparentHeader]
}

// WithTraceparent makes the span a traceparent names the parent of what follows. A
// text that is none changes nothing: a trace is never a reason to refuse work.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return w3c.Extract(ctx, propagation.MapCarrier{TraceparentHeader: traceparent})
}

// ParseTraceparent is the span that a traceparent names. One that is malformed is
// no valid span.
func ParseTraceparent(traceparent string) trace.SpanContext {
	return trace.SpanContextFromContext(WithTraceparent(context.Background(), traceparent))
}

// FromHeader makes the span that a request's header names the parent of what
// follows. A header that names none, or more than one, changes nothing.
func FromHeader(ctx context.Context, h http.Header) context.Context {
	// The keys are looked up as net/http writes them: Get would write them anew.
	if len(h["Traceparent"]) != 1 {
		return ctx
	}
	return w3c.Extract(ctx, sent(h))
}

// sent is a request's header as a propagator reads it. A tracestate may come in
// several lines, which are one list.
type sent http.Header

func (h sent) Get(key string) string {
	return strings.Join(http.Header(h).Values(key), ",")
}

// Set and Keys complete propagation.TextMapCarrier; a propagator that reads calls
// neither.
func (h sent) Set(key, value string) { http.Header(h).Set(key, value) }

// Keys are the header's names.
func (h sent) Keys() []string { return propagation.HeaderCarrier(h).Keys() }

// ClientHeader is where a gateway passes on the traceparent of its client, word for
// word and empty where there was none: in traceparent it names its own span, as the
// parent of what follows. It decides nothing but what jobs keep and which polls
// are worth a span, so it is taken from anybody.
const ClientHeader = "Corvo-Client-Traceparent"

// ClientTraceparent is the traceparent that a request's client has sent, to us or
// to a gateway before us; "" for none, and for more than one.
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

// PassOn writes the header of a request that a gateway passes on, out, a copy of
// the client's, in: ctx's span is the parent of what follows, and what the client
// said stands in ClientHeader.
func PassOn(ctx context.Context, in, out http.Header) {
	out.Del(ClientHeader) // the client is no gateway
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

// ToHeader names the context's span in the header of a request that follows from
// it. What the header says of traces already is replaced; without a span it stays.
func ToHeader(ctx context.Context, h http.Header) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	h.Del(TraceparentHeader)
	h.Del(TracestateHeader)
	w3c.Inject(ctx, propagation.HeaderCarrier(h))
}

// Sampled says whether the context's span is recorded here. Where it is not, its
// children are not either, and need not be begun.
func Sampled(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Begin starts a child of the context's span, by the same provider. The caller
// has asked Sampled.
func Begin(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer(Scope).Start(ctx, name, options...)
}

// Fault marks a span as failed; kind is one of a bounded set of words.
func Fault(span trace.Span, kind, description string) {
	span.SetStatus(codes.Error, description)
	span.SetAttributes(AttrErrorType.String(kind))
}
