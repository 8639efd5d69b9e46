package convert

import (
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/telemetry"
)

// Trace is the trace context of an enqueue as its jobs keep it among their
// headers, word for word.
type Trace struct {
	Parent string // traceparent; "" = there is none
	State  string // tracestate; "" = there is none
}

// FromTraceHeader reads the trace context that a request's client sent. What is malformed is left
// out: a trace is never a reason to refuse work, nor worth keeping when nobody can
// read it.
func FromTraceHeader(h http.Header) Trace {
	given := telemetry.ClientTraceparent(h)
	if given == "" || job.CheckText(given, telemetry.MaxTraceparent) != nil || !telemetry.ParseTraceparent(given).IsValid() {
		return Trace{}
	}
	t := Trace{Parent: given}
	if state := strings.Join(h["Tracestate"], ","); state != "" && len(state) <= telemetry.MaxTracestate {
		if _, err := trace.ParseTraceState(state); err == nil {
			t.State = state
		}
	}
	return t
}

// size bounds what t adds to a job in the log, in bytes.
func (t Trace) size() int { return len(t.Parent) + len(t.State) + 64 }

// Store puts t among the headers of the op's jobs. A job with a traceparent of its
// own keeps that, alone.
//
// A job may have MaxHeaders of its client's choosing, and is never refused for one
// that the server adds: t takes the room that is left, traceparent before
// tracestate, and where none is left the job goes without. So it does when the op
// would no longer fit into the log.
func (t Trace) Store(o *op.Enqueue) {
	if t.Parent == "" || o.SizeVT()+len(o.Jobs)*t.size() > job.MaxOpBytes {
		return
	}
	for _, n := range o.Jobs {
		if named(n.Headers, telemetry.TraceparentHeader) == nil {
			put(n, telemetry.TraceparentHeader, t.Parent)
			put(n, telemetry.TracestateHeader, t.State)
		}
	}
}

// put adds a header in its place, where there is room and none of that name.
func put(n *op.NewJob, name, value string) {
	if value == "" || len(n.Headers) >= job.MaxHeaders || named(n.Headers, name) != nil {
		return
	}
	at, _ := slices.BinarySearchFunc(n.Headers, name, func(p *job.Pair, name string) int { return strings.Compare(p.Name, name) })
	n.Headers = slices.Insert(n.Headers, at, &job.Pair{Name: name, Value: value})
}

// named is the header of a name, in whichever case it was given.
func named(headers []*job.Pair, name string) *job.Pair {
	for _, p := range headers {
		if strings.EqualFold(p.GetName(), name) {
			return p
		}
	}
	return nil
}

// StoredSpan is the span that a job's headers name; not a valid one where they
// name none.
func StoredSpan(headers []*job.Pair) trace.SpanContext {
	p := named(headers, telemetry.TraceparentHeader)
	if p == nil {
		return trace.SpanContext{}
	}
	return telemetry.ParseTraceparent(p.Value)
}
