package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/telemetry/otlptest"
)

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID      = "00f067aa0ba902b7"
	traceparent = "00-" + traceID + "-" + spanID + "-01"
	notSampled  = "00-" + traceID + "-" + spanID + "-00"
)

// traced returns a server whose spans go to a receiver. flush waits for their delivery.
func traced(t *testing.T, routes ...Route) (n node, flush func() []otlptest.Span) {
	t.Helper()
	receiver := otlptest.New(t)
	traces, err := telemetry.OpenTracing(t.Context(), telemetry.TraceConfig{Endpoint: receiver.URL(), Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	n = node{log: &log{}}
	n.Handler, err = New(Config{
		Routes: routes, Authenticate: authenticate, Tracer: traces.Provider(), Logger: slog.New(slog.NewTextHandler(n.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, func() []otlptest.Span {
		t.Helper()
		if err := traces.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return receiver.Spans()
	}
}

func open(path string, h Handler) Route {
	return Route{Method: "POST", Path: path, Permission: Open, Handler: h}
}

// The span of a request is named after its method and route, without ids, and records the outcome.
func TestRequestSpans(t *testing.T) {
	t.Parallel()
	var inside trace.SpanContext
	n, flush := traced(t,
		open("/ok/{id}", func(w http.ResponseWriter, r *http.Request) error {
			inside = trace.SpanContextFromContext(r.Context())
			return answer("fine")(w, r)
		}),
		open("/refused", func(http.ResponseWriter, *http.Request) error { return api.Errorf(api.NotFound, "no") }),
		open("/broken", func(http.ResponseWriter, *http.Request) error { return errors.New("secret") }),
		open("/busy", func(w http.ResponseWriter, r *http.Request) error { w.WriteHeader(503); return nil }),
		open("/panics", func(http.ResponseWriter, *http.Request) error { panic("oh") }),
		open("/half", func(w http.ResponseWriter, r *http.Request) error {
			_, _ = w.Write([]byte("half"))
			return errors.New("and no more")
		}),
	)
	for _, path := range []string{"/ok/7", "/refused", "/broken", "/busy", "/panics", "/nowhere"} {
		n.do("POST", path, "", "traceparent", traceparent)
	}
	func() {
		defer func() { _ = recover() }() // as net/http does
		n.do("POST", "/half", "", "traceparent", traceparent)
	}()
	n.do("BREW", "/ok/7", "", "traceparent", traceparent)
	spans := flush()
	want := []struct {
		name, path, route, status, kind string
		code                            any
	}{
		{"POST /ok/{id}", "/ok/7", "/ok/{id}", "unset", "", int64(200)},
		{"POST /refused", "/refused", "/refused", "unset", "", int64(404)},
		{"POST /broken", "/broken", "/broken", "error", "INTERNAL", int64(500)},
		{"POST /busy", "/busy", "/busy", "error", "Service Unavailable", int64(503)},
		{"POST /panics", "/panics", "/panics", "error", "INTERNAL", int64(500)},
		{"POST", "/nowhere", "", "unset", "", int64(404)},
		{"POST /half", "/half", "/half", "error", "aborted", int64(200)},
		{"HTTP", "/ok/7", "", "unset", "", int64(405)},
	}
	if len(spans) != len(want) {
		t.Fatalf("received\n%s", otlptest.Text(spans))
	}
	for i, w := range want {
		s := spans[i]
		expected := s
		expected.Name, expected.Kind, expected.Status, expected.TraceID, expected.ParentID = w.name, "server", w.status, traceID, spanID
		if diff := cmp.Diff(expected, s); diff != "" {
			t.Errorf("span %d (-want +got):\n%s", i, diff)
		}
		text := func(key string) string { v, _ := s.Attributes[key].(string); return v }
		attributes := map[string]any{"http.route": text("http.route"), "url.path": text("url.path"), "error.type": text("error.type"), "code": s.Attributes["http.response.status_code"]}
		if diff := cmp.Diff(map[string]any{"http.route": w.route, "url.path": w.path, "error.type": w.kind, "code": w.code}, attributes); diff != "" {
			t.Errorf("%s: attributes (-want +got):\n%s", w.name, diff)
		}
		if id := text("corvo.request.id"); len(id) != 32 {
			t.Errorf("%s: the request's id is %q", w.name, id)
		}
		if strings.Contains(fmt.Sprint(s), "secret") {
			t.Errorf("%s shows our own fault to whoever reads traces: %+v", w.name, s)
		}
	}
	if spans[7].Attributes["http.request.method"] != "_OTHER" || spans[0].Attributes["http.request.method"] != "POST" {
		t.Errorf("methods %v and %v", spans[7].Attributes, spans[0].Attributes)
	}
	if inside.SpanID().String() != spans[0].SpanID || inside.TraceID().String() != traceID {
		t.Errorf("the handler's context holds span %s, not %s", inside.SpanID(), spans[0].SpanID)
	}
	// The log line names the trace, and the trace the request.
	if got := strings.Count(n.log.String(), "trace_id="+traceID); got != 3 {
		t.Errorf("%d lines name the trace, want those of /broken, /panics and /half:\n%s", got, n.log)
	}
}

// An invalid trace context never refuses a request, and without a tracer there are no spans.
func TestOtherParents(t *testing.T) {
	t.Parallel()
	var inside []string
	n, flush := traced(t, open("/", func(w http.ResponseWriter, r *http.Request) error {
		inside = append(inside, telemetry.Traceparent(r.Context()))
		return answer("fine")(w, r)
	}))
	for _, given := range []string{"", "garbage", notSampled, strings.ToUpper(traceparent)} {
		if w := n.do("POST", "/", "", "traceparent", given); w.Code != http.StatusOK {
			t.Errorf("traceparent %q: %d", given, w.Code)
		}
	}
	spans := flush()
	if len(spans) != 3 {
		t.Fatalf("received\n%s", otlptest.Text(spans))
	}
	for _, s := range spans {
		if s.ParentID != "" || s.TraceID == traceID {
			t.Errorf("a malformed parent counts: %+v", s)
		}
	}
	if in := inside[2]; !strings.HasPrefix(in, "00-"+traceID) || !strings.HasSuffix(in, "-00") {
		t.Errorf("inside a trace that is not sampled stands %s", in)
	}
}

func TestDropSpan(t *testing.T) {
	t.Parallel()
	n, flush := traced(t, open("/", func(w http.ResponseWriter, r *http.Request) error {
		DropSpan(r.Context())
		return answer("nothing")(w, r)
	}))
	n.do("POST", "/", "")
	DropSpan(context.Background()) // outside of a request: nothing happens
	if spans := flush(); len(spans) != 0 {
		t.Errorf("received\n%s", otlptest.Text(spans))
	}
}

// Without a tracer there is no span, the handler sees none, and the log still names the client's trace.
func TestNoTracer(t *testing.T) {
	t.Parallel()
	for name, tracer := range map[string]trace.TracerProvider{"nil": nil, "noop": noop.NewTracerProvider()} {
		out := &log{}
		h, err := New(Config{Tracer: tracer, Logger: slog.New(slog.NewTextHandler(out, nil)), Routes: []Route{
			open("/", func(w http.ResponseWriter, r *http.Request) error {
				if telemetry.Traceparent(r.Context()) != "" || telemetry.Sampled(r.Context()) {
					t.Errorf("%s: there is a span in the context", name)
				}
				return errors.New("broken")
			}),
		}})
		if err != nil {
			t.Fatal(err)
		}
		node{Handler: h}.do("POST", "/", "", "traceparent", traceparent)
		node{Handler: h}.do("POST", "/", "", "traceparent", "garbage")
		if got := out.String(); strings.Count(got, "request failed") != 2 || strings.Count(got, "trace_id=") != 1 {
			t.Errorf("%s: the log says\n%s", name, got)
		}
	}
}

// A client that leaves is not an error of the server.
func TestClientGoneIsNoFault(t *testing.T) {
	t.Parallel()
	n, flush := traced(t, open("/", func(_ http.ResponseWriter, r *http.Request) error { return context.Cause(r.Context()) }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", "/", nil))
	spans := flush()
	if len(spans) != 1 || spans[0].Status != "unset" || spans[0].Attributes["http.response.status_code"] != int64(clientGone) {
		t.Errorf("received\n%s", otlptest.Text(spans))
	}
}
