package pipeline

import (
	"context"

	"github.com/corvo/corvo/engine/entry"
)

// Tracer makes a span for each entry that carries ops of a trace. The interface keeps the Pipeline
// independent of the tracing library.
type Tracer interface {
	// Of returns the span that ctx records, or zero if it records none.
	Of(ctx context.Context) entry.Trace
	// Begin starts the span of an entry with the given number of ops. proposed lists the spans of the ops
	// that have one, in the ops' order. proposed is never empty, and Begin must not keep it.
	Begin(proposed []entry.Trace, ops int) Span
}

// Span covers an entry from its encoding until it was applied or has failed.
type Span interface {
	// Trace returns the trace context for the entry's header, or zero if the span is not recorded.
	Trace() entry.Trace
	// End ends the span and is called once. If err is nil, at is the entry's position.
	End(at entry.Position, err error)
}

// trace starts the span of an entry, or returns nil if none of its ops belongs to a trace.
func (p *Pipeline) trace(batch []*proposal) Span {
	if p.env.Tracer == nil {
		return nil
	}
	var proposed []entry.Trace
	for _, pr := range batch {
		if pr.trace != (entry.Trace{}) {
			proposed = append(proposed, pr.trace)
		}
	}
	if len(proposed) == 0 {
		return nil
	}
	return p.env.Tracer.Begin(proposed, len(batch))
}
