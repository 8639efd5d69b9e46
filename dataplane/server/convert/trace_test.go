package convert

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/telemetry"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// FromTraceHeader keeps only a trace that it can read, word for word, and only up to a bound.
func TestFromTraceHeader(t *testing.T) {
	t.Parallel()
	later := "cc" + traceparent[2:] + "-" // of a later version, which may be longer
	longest := later + strings.Repeat("x", telemetry.MaxTraceparent-len(later))
	state := "v=" + strings.Repeat("s", 254) + ",w=" + strings.Repeat("s", telemetry.MaxTracestate-260)
	state += strings.Repeat("t", telemetry.MaxTracestate-len(state))
	for name, c := range map[string]struct {
		header http.Header
		want   Trace
	}{
		"none":            {http.Header{}, Trace{}},
		"alone":           {http.Header{"Traceparent": {traceparent}}, Trace{Parent: traceparent}},
		"not sampled":     {http.Header{"Traceparent": {traceparent[:54] + "0"}}, Trace{Parent: traceparent[:54] + "0"}},
		"a later version": {http.Header{"Traceparent": {longest}}, Trace{Parent: longest}},
		"too long":        {http.Header{"Traceparent": {longest + "x"}}, Trace{}},
		"no text":         {http.Header{"Traceparent": {later + "\xff"}}, Trace{}},
		"two":             {http.Header{"Traceparent": {traceparent, traceparent}}, Trace{}},
		"through a gateway": {
			http.Header{"Traceparent": {later}, telemetry.ClientHeader: {traceparent}, "Tracestate": {"v=1"}}, Trace{traceparent, "v=1"},
		},
		"none through a gateway": {
			http.Header{"Traceparent": {traceparent}, telemetry.ClientHeader: {""}}, Trace{},
		},
		"garbage":          {http.Header{"Traceparent": {"garbage"}, "Tracestate": {"v=1"}}, Trace{}},
		"a state alone":    {http.Header{"Tracestate": {"v=1"}}, Trace{}},
		"a state in lines": {http.Header{"Traceparent": {traceparent}, "Tracestate": {"v=1", "w=2"}}, Trace{traceparent, "v=1,w=2"}},
		"a bad state":      {http.Header{"Traceparent": {traceparent}, "Tracestate": {"="}}, Trace{Parent: traceparent}},
		"the longest state": {
			http.Header{"Traceparent": {traceparent}, "Tracestate": {state}}, Trace{traceparent, state},
		},
		"a longer state": {http.Header{"Traceparent": {traceparent}, "Tracestate": {state + "t"}}, Trace{Parent: traceparent}},
	} {
		if got := FromTraceHeader(c.header); got != c.want {
			t.Errorf("%s: read %+v, want %+v", name, got, c.want)
		}
	}
}

func headersOf(n *op.NewJob) string {
	var b strings.Builder
	for _, p := range n.Headers {
		fmt.Fprintf(&b, "%s=%s;", p.Name, p.Value)
	}
	return b.String()
}

func TestStore(t *testing.T) {
	t.Parallel()
	pair := func(name, value string) *job.Pair { return &job.Pair{Name: name, Value: value} }
	for name, c := range map[string]struct {
		own  []*job.Pair
		want string
	}{
		"none of its own": {nil, "traceparent=P;tracestate=S;"},
		"sorted":          {[]*job.Pair{pair("a", "1"), pair("traceq", "2"), pair("z", "3")}, "a=1;traceparent=P;traceq=2;tracestate=S;z=3;"},
		"its own wins":    {[]*job.Pair{pair("TraceParent", "own")}, "TraceParent=own;"},
		"a state of its own stays": {
			[]*job.Pair{pair("tracestate", "own")}, "traceparent=P;tracestate=own;",
		},
	} {
		n := &op.NewJob{Headers: c.own}
		Trace{Parent: "P", State: "S"}.Store(&op.Enqueue{Jobs: []*op.NewJob{n}})
		if got := headersOf(n); got != c.want || job.CheckHeaders(n.Headers) != nil {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	n := &op.NewJob{}
	Trace{}.Store(&op.Enqueue{Jobs: []*op.NewJob{n}})
	if n.Headers != nil {
		t.Errorf("no trace is stored as %s", headersOf(n))
	}
}

// A batch that just fits into the log is not refused because of the trace that the server adds.
func TestStoreLeavesAFullOpAlone(t *testing.T) {
	t.Parallel()
	trace := Trace{Parent: traceparent}
	full := func(size int) *op.Enqueue {
		o := &op.Enqueue{Jobs: []*op.NewJob{{Payload: &job.Blob{}}}}
		o.Jobs[0].Payload.Data = make([]byte, size)
		o.Jobs[0].Payload.Data = make([]byte, 2*size-o.SizeVT())
		if o.SizeVT() != size {
			t.Fatalf("an op of %d bytes, want %d", o.SizeVT(), size)
		}
		return o
	}
	for size, stored := range map[int]bool{job.MaxOpBytes - trace.size(): true, job.MaxOpBytes - trace.size() + 1: false, job.MaxOpBytes: false} {
		o := full(size)
		trace.Store(o)
		if got := len(o.Jobs[0].Headers) == 1; got != stored || o.SizeVT() > job.MaxOpBytes {
			t.Errorf("of an op of %d bytes the trace is stored: %v, want %v; it takes %d now", size, got, stored, o.SizeVT())
		}
	}
}

func TestStoredSpan(t *testing.T) {
	t.Parallel()
	of := func(name, value string) []*job.Pair { return []*job.Pair{{Name: "a"}, {Name: name, Value: value}} }
	if got := StoredSpan(of("TRACEPARENT", traceparent)); got.SpanID().String() != "00f067aa0ba902b7" || !got.IsSampled() {
		t.Errorf("read %v", got)
	}
	for _, none := range [][]*job.Pair{nil, of("b", traceparent), of("traceparent", "garbage")} {
		if StoredSpan(none).IsValid() {
			t.Errorf("%v names a span", none)
		}
	}
}
