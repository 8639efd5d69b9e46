package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The bounds of the export. While MaxSpansWaiting spans wait, further spans are dropped, so that a slow or
// dead receiver costs only their memory and delays no request.
const (
	DefaultTraceInterval = time.Second // longest time before a batch of spans is sent
	MaxSpansWaiting      = 8192
	MaxSpansSent         = 512              // spans in one request to the receiver
	MaxAttribute         = 1024             // characters of an attribute's value; longer values are truncated
	sendTimeout          = 5 * time.Second  // one try
	exportTimeout        = 15 * time.Second // all tries of a batch
	firstRetry           = 500 * time.Millisecond
	longestRetry         = 4 * time.Second
)

// TraceConfig configures the export of spans.
type TraceConfig struct {
	// Endpoint is the base URL of an OTLP/HTTP receiver, such as
	// http://127.0.0.1:4318; v1/traces is appended. "" = no traces.
	Endpoint string
	Service  string        // service.name, such as corvo or corvo-cloud
	Instance string        // service.instance.id; "" = left out
	Version  string        // service.version; "" = left out
	Interval time.Duration // longest time before a batch of spans is sent; 0 = DefaultTraceInterval
	Logger   *slog.Logger  // logs failures of the receiver and its return; nil = slog.Default()
}

// Tracing exports the process's spans to an OTLP receiver.
type Tracing struct {
	provider trace.TracerProvider
	sdk      *sdk.TracerProvider // nil without an endpoint
	exporter *exporter           // nil without an endpoint
}

// OpenTracing starts the export of spans; without an endpoint spans cost nothing. Every
// trace that starts in this process is sampled; for other traces the sender has decided.
// The receiver may be down, because nothing waits for it. Extra headers, such as a
// credential, come from OTEL_EXPORTER_OTLP_HEADERS. OpenTracing fails for an endpoint
// that is not an http or https URL.
func OpenTracing(ctx context.Context, c TraceConfig) (*Tracing, error) {
	if c.Endpoint == "" {
		return &Tracing{provider: noop.NewTracerProvider()}, nil
	}
	at, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("traces: the endpoint: %w: give one such as http://127.0.0.1:4318", err)
	}
	if (at.Scheme != "http" && at.Scheme != "https") || at.Host == "" || at.RawQuery != "" || at.Fragment != "" {
		return nil, fmt.Errorf("traces: the endpoint %q is not a base URL: give one such as http://127.0.0.1:4318", at.Redacted())
	}
	sender, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(at.JoinPath("v1/traces").String()),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithTimeout(sendTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: firstRetry, MaxInterval: longestRetry, MaxElapsedTime: exportTimeout,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	t := &Tracing{exporter: newExporter(sender, cmp.Or(c.Logger, slog.Default()), at.Redacted())}
	t.sdk = sdk.NewTracerProvider(
		sdk.WithBatcher(t.exporter,
			sdk.WithBatchTimeout(cmp.Or(c.Interval, DefaultTraceInterval)),
			sdk.WithMaxQueueSize(MaxSpansWaiting),
			sdk.WithMaxExportBatchSize(MaxSpansSent),
			sdk.WithExportTimeout(exportTimeout)),
		sdk.WithRawSpanLimits(limits()),
		sdk.WithResource(c.resource()),
		sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())),
	)
	t.provider = t.sdk
	return t, nil
}

// limits bounds the size of a span, because clients write some of its attributes.
func limits() sdk.SpanLimits {
	l := sdk.NewSpanLimits()
	l.LinkCountLimit = MaxLinks
	l.AttributeValueLengthLimit = MaxAttribute
	return l
}

// resource describes this process to the receiver.
func (c TraceConfig) resource() *resource.Resource {
	var who []attribute.KeyValue
	for key, value := range map[attribute.Key]string{
		AttrService: c.Service, AttrServiceVersion: c.Version, AttrServiceInstance: c.Instance,
	} {
		if value != "" {
			who = append(who, key.String(value))
		}
	}
	return resource.NewSchemaless(who...)
}

// Provider returns the provider of tracers.
func (t *Tracing) Provider() trace.TracerProvider { return t.provider }

// Close sends the remaining spans and stops the export. If ctx ends first, Close drops the
// unsent spans and returns ctx's error. Nothing runs after Close has returned.
func (t *Tracing) Close(ctx context.Context) error {
	if t.sdk == nil {
		return nil
	}
	err := t.sdk.Shutdown(ctx)
	t.exporter.cut()
	<-t.exporter.ended
	if err != nil {
		return fmt.Errorf("traces: the last spans were not sent: %w", err)
	}
	return nil
}

// Tracer returns the tracer of p, or nil if p is nil or exports nothing, so that the
// caller can skip the work for spans.
func Tracer(p trace.TracerProvider) trace.Tracer {
	switch p.(type) {
	case nil, noop.TracerProvider, *noop.TracerProvider:
		return nil
	}
	return p.Tracer(Scope)
}
