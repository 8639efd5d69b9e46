package pipeline

import (
	"context"

	"github.com/corvo/corvo/engine/entry"
)

// Tracer follows the entries of ops that belong to a trace. It stands between a
// Pipeline and whatever makes spans, of which a Pipeline needs only names.
type Tracer interface {
	// Of is the span that is being recorded in ctx; zero for none.
	Of(ctx context.Context) entry.Trace
	// Begin starts the span of an entry of so many ops. The spans its ops were
	// proposed in come in the ops' order, one at least; the slice is not to be kept.
	Begin(proposed []entry.Trace, ops int) Span
}

// Span is an entry on its way, from its making until it was applied or has failed.
type Span interface {
	// Trace is what the entry's header says of it; zero when it is not recorded.
	Trace() entry.Trace
	// End is called once. The position is the entry's, and counts when err is nil.
	End(at entry.Position, err error)
}

// trace starts the span of an entry; nil when none of its ops belongs to a trace.
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
