package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/telemetry/otlptest"
)

const (
	parent  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ignored = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

func open(t *testing.T, c telemetry.TraceConfig) *telemetry.Tracing {
	t.Helper()
	traces, err := telemetry.OpenTracing(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return traces
}

// Close delivers the last spans, because the last seconds of a process are often the
// interesting ones.
func TestSpansArrive(t *testing.T) {
	t.Parallel()
	receiver := otlptest.New(t)
	traces := open(t, telemetry.TraceConfig{Endpoint: receiver.URL() + "/", Service: "corvo", Instance: "i1", Version: "v9", Interval: time.Hour})
	tracer := telemetry.Tracer(traces.Provider())

	_, own := tracer.Start(t.Context(), "own")
	telemetry.Fault(own, "INTERNAL", "it broke")
	own.End()
	ctx, child := tracer.Start(telemetry.WithTraceparent(t.Context(), parent), "child", trace.WithSpanKind(trace.SpanKindProducer))
	child.SetAttributes(telemetry.AttrBatchMessageCount.Int(3), telemetry.AttrURLPath.String(strings.Repeat("p", telemetry.MaxAttribute+1)))
	for range telemetry.MaxLinks + 1 {
		child.AddLink(trace.Link{SpanContext: trace.SpanContextFromContext(ctx)})
	}
	if !telemetry.Sampled(ctx) {
		t.Error("a child of a sampled span is not sampled")
	}
	child.End()
	// A client that asks for no spans gets none, not even of children.
	ctx, unwanted := tracer.Start(telemetry.WithTraceparent(t.Context(), ignored), "unwanted")
	if telemetry.Sampled(ctx) || !strings.HasSuffix(telemetry.Traceparent(ctx), "-00") {
		t.Errorf("sampled=0 became %s", telemetry.Traceparent(ctx))
	}
	unwanted.End()

	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := receiver.Spans()
	if len(spans) != 2 {
		t.Fatalf("received\n%s", otlptest.Text(spans))
	}
	failed := spans[0]
	if failed.Name != "own" || failed.ParentID != "" {
		t.Errorf("a span of its own is %q below %q", failed.Name, failed.ParentID)
	}
	if failed.Status != "error" || failed.StatusText != "it broke" || failed.Attributes["error.type"] != "INTERNAL" {
		t.Errorf("a failed span: %q %q, %v", failed.Status, failed.StatusText, failed.Attributes)
	}
	s := spans[1]
	if s.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" || s.ParentID != "00f067aa0ba902b7" {
		t.Errorf("a child is in trace %s below %s", s.TraceID, s.ParentID)
	}
	if s.Kind != "producer" || s.Attributes["messaging.batch.message_count"] != int64(3) {
		t.Errorf("a child of kind %q has the attributes %v", s.Kind, s.Attributes)
	}
	if path := s.Attributes["url.path"].(string); len(path) != telemetry.MaxAttribute || len(s.Links) != telemetry.MaxLinks {
		t.Errorf("a span of any size is sent: an attribute of %d bytes, %d links", len(path), len(s.Links))
	}
	for key, want := range map[string]any{"service.name": "corvo", "service.instance.id": "i1", "service.version": "v9"} {
		if s.Resource[key] != want {
			t.Errorf("%s is %v, want %v", key, s.Resource[key], want)
		}
	}
}

// Without an endpoint no work is done for spans.
func TestNoEndpoint(t *testing.T) {
	t.Parallel()
	traces := open(t, telemetry.TraceConfig{Service: "corvo"})
	if telemetry.Tracer(traces.Provider()) != nil || telemetry.Tracer(nil) != nil || telemetry.Tracer(noop.NewTracerProvider()) != nil {
		t.Error("there is a tracer where nothing is sent")
	}
	if err := traces.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"127.0.0.1:4318", "grpc://h:4317", "http://", "http://h?x=1", "http://h/#f", "http://h:port", "://"} {
		if _, err := telemetry.OpenTracing(t.Context(), telemetry.TraceConfig{Endpoint: bad}); err == nil {
			t.Errorf("%q passes for an endpoint", bad)
		}
	}
	for _, good := range []string{"https://collector.example.com", "http://[::1]:4318/base/"} {
		traces, err := telemetry.OpenTracing(t.Context(), telemetry.TraceConfig{Endpoint: good})
		if err != nil {
			t.Errorf("%q: %v", good, err)
			continue
		}
		if err := traces.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// logBuffer is a log that can be read during writes.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) count(word string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), word)
}

// A receiver that is down for a night causes one line in the log, not one a second, and
// another line when it is back.
func TestAFailingReceiverIsSaidOnce(t *testing.T) {
	t.Parallel()
	receiver, log := otlptest.New(t), &logBuffer{}
	traces := open(t, telemetry.TraceConfig{
		Endpoint: receiver.URL(), Interval: time.Hour, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	tracer := telemetry.Tracer(traces.Provider())
	flusher := traces.Provider().(interface{ ForceFlush(context.Context) error })
	send := func(times int) {
		t.Helper()
		want := receiver.Requests() + times
		for range times {
			_, span := tracer.Start(t.Context(), "s")
			span.End()
			if err := flusher.ForceFlush(t.Context()); err != nil {
				t.Errorf("a receiver that fails is an error of who sends: %v", err)
			}
		}
		if got := receiver.Requests(); got != want {
			t.Fatalf("the receiver was asked %d times, want %d", got, want)
		}
	}
	receiver.Refuse(http.StatusInternalServerError)
	send(4)
	receiver.Refuse(0)
	send(3)
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if failed, again := log.count("the trace receiver fails"), log.count("the trace receiver works again"); failed != 1 || again != 1 {
		t.Errorf("said %d times that sending fails and %d times that it works again:\n%s", failed, again, log.text.String())
	}
	if log.count("spans_dropped=4") != 1 {
		t.Errorf("4 spans were dropped, which the log does not say:\n%s", log.text.String())
	}
}

// A receiver that accepts connections and never answers must delay neither a request nor
// the end of the process.
func TestCloseWithinItsTime(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	receiver := http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	})}
	endpoint := listen(t, &receiver)
	t.Cleanup(func() { close(hangs) })
	traces := open(t, telemetry.TraceConfig{Endpoint: endpoint, Interval: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	tracer := telemetry.Tracer(traces.Provider())
	for range 2 * telemetry.MaxSpansWaiting {
		_, span := tracer.Start(t.Context(), "s")
		span.End()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := traces.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	// The 17 batches could take 15 s each.
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("close took %v of the 50ms it had", took)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	from := func(h http.Header) trace.SpanContext {
		return trace.SpanContextFromContext(telemetry.FromHeader(context.Background(), h))
	}
	in := http.Header{"Traceparent": {parent}, "Tracestate": {"a=1", "b=2"}}
	got := from(in)
	if !got.IsValid() || !got.IsSampled() || got.TraceState().String() != "a=1,b=2" {
		t.Errorf("read %v with state %q", got, got.TraceState())
	}
	for name, h := range map[string]http.Header{
		"none":       {},
		"two":        {"Traceparent": {parent, parent}},
		"no hex":     {"Traceparent": {strings.Replace(parent, "4bf", "4Bg", 1)}},
		"no ids":     {"Traceparent": {"00-00000000000000000000000000000000-0000000000000000-01"}},
		"short":      {"Traceparent": {parent[:54]}},
		"long":       {"Traceparent": {parent + "-00"}},
		"version ff": {"Traceparent": {"ff" + parent[2:]}},
	} {
		if from(h).IsValid() {
			t.Errorf("%s passes for a traceparent", name)
		}
	}
	// A gateway names its own span and keeps its client's traceparent.
	for said, want := range map[string]string{"": "", parent: parent, "garbage": "garbage"} {
		in := http.Header{"Tracestate": {"a=1"}, telemetry.ClientHeader: {"a lie"}}
		if said != "" {
			in.Set("traceparent", said)
		}
		passed := in.Clone()
		telemetry.PassOn(telemetry.WithTraceparent(context.Background(), ignored), in, passed)
		if passed.Get("traceparent") != ignored || telemetry.ClientTraceparent(passed) != want || passed.Get("tracestate") != "a=1" {
			t.Errorf("%q is passed on as %v", said, passed)
		}
		passed = in.Clone()
		telemetry.PassOn(context.Background(), in, passed)
		if passed.Get("traceparent") != said || telemetry.ClientTraceparent(passed) != want {
			t.Errorf("without a span %q is passed on as %v", said, passed)
		}
	}
	// The header names the current span and nothing of an earlier one.
	out := http.Header{"Traceparent": {ignored}, "Tracestate": {"old=1"}}
	telemetry.ToHeader(context.Background(), out)
	if out.Get("traceparent") != ignored {
		t.Error("without a span the header changed")
	}
	telemetry.ToHeader(telemetry.WithTraceparent(context.Background(), parent), out)
	if out.Get("traceparent") != parent || out.Get("tracestate") != "" {
		t.Errorf("wrote %v", out)
	}
}

// listen serves on a free port until the test ends.
func listen(t *testing.T, s *http.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return "http://" + l.Addr().String()
}
