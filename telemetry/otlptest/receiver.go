// Package otlptest is an OTLP/HTTP receiver for tests, which can inspect the received
// spans. It decodes the protobuf on the wire, so that a test checks the data that a real
// collector would see. Only tests import it.
package otlptest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
)

// MaxWait bounds the wait of WaitFor. It is long, because a busy machine must not fail
// a test.
const MaxWait = time.Minute

// maxRequest bounds one request, unpacked, in bytes.
const maxRequest = 64 << 20

// Span is a received span. Ids are in lower-case hex.
type Span struct {
	TraceID, SpanID string
	ParentID        string // "" = it begins its trace
	TraceState      string
	Name            string
	Kind            string // unspecified, internal, server, client, producer or consumer
	Status          string // unset, ok or error
	StatusText      string
	Start, End      time.Time
	Attributes      map[string]any // string, bool, int64, float64 or []any
	Links           []Link
	Resource        map[string]any // of the process that sent it
}

// Link is a reference of a span to another span than its parent.
type Link struct{ TraceID, SpanID string }

// Traceparent returns the traceparent that names s as a parent.
func (s Span) Traceparent() string { return "00-" + s.TraceID + "-" + s.SpanID + "-01" }

// Receiver collects spans until its test ends.
type Receiver struct {
	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	spans    []Span
	requests int
	refusing int           // status for all requests; 0 = they are taken
	changed  chan struct{} // closed when something was received
}

// New starts a receiver.
func New(t testing.TB) *Receiver {
	r := &Receiver{t: t, changed: make(chan struct{})}
	r.server = httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(r.server.Close)
	return r
}

// URL returns the base URL for telemetry.TraceConfig.Endpoint.
func (r *Receiver) URL() string { return r.server.URL }

// Refuse answers further requests with a status; 0 accepts them again.
func (r *Receiver) Refuse(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = status
}

// Requests counts the requests so far, including refused ones.
func (r *Receiver) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// Spans returns the spans so far, in the order of their arrival.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// WaitFor waits until the function enough accepts the received spans, and reports whether it did so within
// MaxWait. WaitFor calls it after each arrival.
func (r *Receiver) WaitFor(enough func([]Span) bool) bool {
	r.t.Helper()
	late := time.NewTimer(MaxWait)
	defer late.Stop()
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if enough(r.Spans()) {
			return true
		}
		select {
		case <-changed:
		case <-late.C:
			return false
		}
	}
}

// Await waits for the first span that has a name and passes a check (nil = no check). If none arrives, it ends
// the test and lists the received spans.
func (r *Receiver) Await(name string, is func(Span) bool) Span {
	r.t.Helper()
	var found Span
	fits := func(s Span) bool { return s.Name == name && (is == nil || is(s)) }
	if !r.WaitFor(func(spans []Span) bool {
		i := slices.IndexFunc(spans, fits)
		if i >= 0 {
			found = spans[i]
		}
		return i >= 0
	}) {
		r.t.Fatalf("no span %q came within %v; these did:\n%s", name, MaxWait, Text(r.Spans()))
	}
	return found
}

// Text lists spans, one a line, for the message of a failed test.
func Text(spans []Span) string {
	var b strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&b, "%s %s %q of %s in %s, %d links, %v\n", s.SpanID, s.Kind, s.Name, s.ParentID, s.TraceID, len(s.Links), s.Attributes)
	}
	return b.String()
}

func (r *Receiver) receive(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.requests++
	refusing := r.refusing
	r.mu.Unlock()
	if refusing != 0 {
		http.Error(w, "refused by the test", refusing)
		return
	}
	request, err := read(q)
	if err != nil {
		r.t.Errorf("otlptest: %v", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.take(request)
	answer, err := proto.Marshal(&collector.ExportTraceServiceResponse{})
	if err != nil {
		r.t.Errorf("otlptest: %v", err)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

// read decodes a request of the protocol.
func read(q *http.Request) (*collector.ExportTraceServiceRequest, error) {
	if q.Method != http.MethodPost || !strings.HasSuffix(q.URL.Path, "/v1/traces") {
		return nil, fmt.Errorf("%s %s is no export of traces", q.Method, q.URL.Path)
	}
	if got := q.Header.Get("Content-Type"); got != "application/x-protobuf" {
		return nil, fmt.Errorf("the content type is %q", got)
	}
	body := io.Reader(q.Body)
	switch encoding := q.Header.Get("Content-Encoding"); encoding {
	case "":
	case "gzip":
		unpacked, err := gzip.NewReader(q.Body)
		if err != nil {
			return nil, err
		}
		body = unpacked
	default:
		return nil, fmt.Errorf("the content encoding is %q", encoding)
	}
	data, err := io.ReadAll(io.LimitReader(body, maxRequest))
	if err != nil {
		return nil, err
	}
	var request collector.ExportTraceServiceRequest
	return &request, proto.Unmarshal(data, &request)
}

func (r *Receiver) take(request *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, from := range request.ResourceSpans {
		resource := attributes(from.GetResource().GetAttributes())
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				r.spans = append(r.spans, span(s, resource))
			}
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func span(s *wire.Span, resource map[string]any) Span {
	out := Span{
		TraceID:    hex.EncodeToString(s.TraceId),
		SpanID:     hex.EncodeToString(s.SpanId),
		ParentID:   hex.EncodeToString(s.ParentSpanId),
		TraceState: s.TraceState,
		Name:       s.Name,
		Kind:       word(s.Kind.String(), "SPAN_KIND_"),
		Status:     word(s.Status.GetCode().String(), "STATUS_CODE_"),
		StatusText: s.Status.GetMessage(),
		Start:      time.Unix(0, int64(s.StartTimeUnixNano)),
		End:        time.Unix(0, int64(s.EndTimeUnixNano)),
		Attributes: attributes(s.Attributes),
		Resource:   resource,
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, Link{hex.EncodeToString(l.TraceId), hex.EncodeToString(l.SpanId)})
	}
	return out
}

// word returns an enum's name as Span holds it.
func word(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }

func attributes(list []*common.KeyValue) map[string]any {
	out := make(map[string]any, len(list))
	for _, a := range list {
		out[a.Key] = value(a.Value)
	}
	return out
}

func value(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	case *common.AnyValue_ArrayValue:
		all := make([]any, len(v.ArrayValue.GetValues()))
		for i, one := range v.ArrayValue.GetValues() {
			all[i] = value(one)
		}
		return all
	default:
		return v
	}
}
