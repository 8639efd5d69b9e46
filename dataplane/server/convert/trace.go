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

// Trace is the trace context of an enqueue. The new jobs keep it unchanged among their headers.
type Trace struct {
	Parent string // traceparent; "" = none
	State  string // tracestate; "" = none
}

// FromTraceHeader reads the trace context of a request. It drops a malformed traceparent or tracestate,
// because a trace is never a reason to refuse work and no later reader could parse it. Without a traceparent
// it also drops the tracestate.
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

// size bounds the bytes that t adds to a job in the log.
func (t Trace) size() int { return len(t.Parent) + len(t.State) + 64 }

// Store puts t among the headers of the op's jobs. A job with a traceparent of its own keeps only that.
//
// A client may give a job MaxHeaders headers, and a job is never refused because the server adds one. So t
// takes the remaining room, traceparent before tracestate, and a job without room gets none. If the op would
// no longer fit into the log, no job gets t. Store must come after all other changes of the op, because it
// checks the op's size, and the headers must be sorted by name.
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

// put adds a header at its place in the order, if there is room and no header of that name.
func put(n *op.NewJob, name, value string) {
	if value == "" || len(n.Headers) >= job.MaxHeaders || named(n.Headers, name) != nil {
		return
	}
	at, _ := slices.BinarySearchFunc(n.Headers, name, func(p *job.Pair, name string) int { return strings.Compare(p.Name, name) })
	n.Headers = slices.Insert(n.Headers, at, &job.Pair{Name: name, Value: value})
}

// named returns the header of a name, ignoring case.
func named(headers []*job.Pair, name string) *job.Pair {
	for _, p := range headers {
		if strings.EqualFold(p.GetName(), name) {
			return p
		}
	}
	return nil
}

// StoredSpan returns the span that a job's headers name; it is not valid if they name none.
func StoredSpan(headers []*job.Pair) trace.SpanContext {
	p := named(headers, telemetry.TraceparentHeader)
	if p == nil {
		return trace.SpanContext{}
	}
	return telemetry.ParseTraceparent(p.Value)
}
