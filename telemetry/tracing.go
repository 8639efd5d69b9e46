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

// The bounds of what is sent. Spans beyond them are dropped and counted: a
// receiver that is slow or gone costs memory for MaxSpansWaiting and no request
// any time.
const (
	DefaultTraceInterval = time.Second // how long spans gather at most
	MaxSpansWaiting      = 8192
	MaxSpansSent         = 512              // in one request to the receiver
	MaxAttribute         = 1024             // characters of an attribute's value; the rest is cut off
	sendTimeout          = 5 * time.Second  // one try
	exportTimeout        = 15 * time.Second // all tries of a batch
	firstRetry           = 500 * time.Millisecond
	longestRetry         = 4 * time.Second
)

// TraceConfig says where spans go.
type TraceConfig struct {
	// Endpoint is the base URL of an OTLP/HTTP receiver, such as
	// http://127.0.0.1:4318; v1/traces is appended. "" = no traces.
	Endpoint string
	Service  string        // service.name, such as corvo or corvo-cloud
	Instance string        // service.instance.id; "" = not said
	Version  string        // service.version; "" = not said
	Interval time.Duration // how long spans gather at most; 0 = DefaultTraceInterval
	Logger   *slog.Logger  // is told when the receiver fails and when it is back; nil = slog.Default()
}

// Tracing is the process's way to an OTLP receiver.
type Tracing struct {
	provider trace.TracerProvider
	sdk      *sdk.TracerProvider // nil without an endpoint
	exporter *exporter           // nil without an endpoint
}

// OpenTracing starts sending spans; without an endpoint they go nowhere and cost
// nothing. Every trace that begins here is sampled; of those that began elsewhere
// the sender has decided. The receiver need not be there: nothing waits for it.
// Headers it wants, such as a credential, are taken from
// OTEL_EXPORTER_OTLP_HEADERS. An endpoint that is no http or https URL is an
// error.
func OpenTracing(ctx context.Context, c TraceConfig) (*Tracing, error) {
	if c.Endpoint == "" {
		return &Tracing{provider: noop.NewTracerProvider()}, nil
	}
	at, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("traces: the endpoint: %w: give one such as http://127.0.0.1:4318", err)
	}
	if (at.Scheme != "http" && at.Scheme != "https") || at.Host == "" || at.RawQuery != "" || at.Fragment != "" {
		return nil, fmt.Errorf("traces: the endpoint %q is no base URL: give one such as http://127.0.0.1:4318", at.Redacted())
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

// limits bound a span, some of whose attributes are written by clients.
func limits() sdk.SpanLimits {
	l := sdk.NewSpanLimits()
	l.LinkCountLimit = MaxLinks
	l.AttributeValueLengthLimit = MaxAttribute
	return l
}

// resource is who sends.
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

// Provider makes tracers.
func (t *Tracing) Provider() trace.TracerProvider { return t.provider }

// Close sends what is left and ends. What could not be sent when ctx ends is
// dropped, and ctx's error returned; nothing runs any longer then.
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

// Tracer makes the spans of p; nil when p is nil or sends nothing, so that who
// asks can leave out the work as well.
func Tracer(p trace.TracerProvider) trace.Tracer {
	switch p.(type) {
	case nil, noop.TracerProvider, *noop.TracerProvider:
		return nil
	}
	return p.Tracer(Scope)
}
