package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// spans is a Tracer whose spans are bytes. A test chooses the spans of its contexts; the spans of entries
// count up from 100.
type spans struct {
	begun []string // "spans of ops/ops in the entry", per entry
	ended []string // "span index code", per entry
}

type spanKey struct{}

func in(ctx context.Context, span byte) context.Context {
	return context.WithValue(ctx, spanKey{}, span)
}

func (s *spans) Of(ctx context.Context) entry.Trace {
	span, _ := ctx.Value(spanKey{}).(byte)
	return entry.Trace{span}
}

func (s *spans) Begin(proposed []entry.Trace, ops int) Span {
	var of []byte
	for _, p := range proposed {
		of = append(of, p[0])
	}
	s.begun = append(s.begun, fmt.Sprint(of, "/", ops))
	return &span{s, byte(99 + len(s.begun))}
}

type span struct {
	of *spans
	id byte
}

func (s *span) Trace() entry.Trace { return entry.Trace{s.id} }

func (s *span) End(at entry.Position, err error) {
	s.of.ended = append(s.of.ended, fmt.Sprint(s.id, " ", at.Index, " ", api.CodeOf(err)))
}

// TestTracedEntries checks that an entry's span lists the spans of its ops in their order, and that an entry
// without traced ops has no span.
func TestTracedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spans{}
		p, l := start(t, func(c *Config) { c.Tracer, c.First = s, op{name: "first"} })
		synctest.Wait()
		ctx := t.Context()
		l.entries[0].settled <- nil // the term's first op belongs to no trace
		synctest.Wait()
		propose(in(ctx, 1), p, op{name: "a"})
		synctest.Wait()
		for _, proposed := range []struct {
			name string
			span byte
		}{{"b", 0}, {"c", 2}, {"d", 3}, {"e", 0}} {
			propose(in(ctx, proposed.span), p, op{name: proposed.name})
			synctest.Wait()
		}
		l.entries[1].settled <- nil
		synctest.Wait()
		propose(ctx, p, op{name: "f"})
		synctest.Wait()
		if got, want := fmt.Sprint(s.ended), "[100 2 ]"; got != want {
			t.Errorf("ended %s, want %s: a span lasts until its entry was applied", got, want)
		}
		l.entries[2].settled <- errStopped
		synctest.Wait()
		l.entries[3].settled <- nil
		synctest.Wait()
		if got, want := fmt.Sprint(s.begun), "[[1]/1 [2 3]/4]"; got != want {
			t.Errorf("begun %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(s.ended), "[100 2  101 0 LEADER_UNAVAILABLE]"; got != want {
			t.Errorf("ended %s, want %s", got, want)
		}
		var said []byte
		for _, e := range l.entries {
			said = append(said, e.Trace[0])
		}
		if got, want := fmt.Sprint(l.names(), said), "[[first] [a] [b c d e] [f]] [0 100 101 0]"; got != want {
			t.Errorf("the log holds %s, want %s", got, want)
		}
	})
}

// applied is the Future of an applied entry of one op.
type applied struct{}

var nothing = []any{nil}

func (applied) Wait() ([]any, entry.Position, error) {
	return nothing, entry.Position{Index: 1}, nil
}

// TestNoSpanNoAllocation checks that a tracer allocates nothing for an op without a span.
func TestNoSpanNoAllocation(t *testing.T) {
	allocations := func(tracer Tracer) float64 {
		p := Start(Config{Env: Env{
			Append: func([]byte) Future { return applied{} }, Now: time.Now, Level: func() uint32 { return 1 },
			Rand: rand.NewChaCha8([32]byte{1}), Tracer: tracer,
		}})
		defer func() { p.Stop(errStopped); <-p.Done() }()
		var o Op = op{name: "a"}
		return testing.AllocsPerRun(500, func() {
			if _, _, err := p.Propose(context.Background(), o); err != nil {
				t.Error(err)
			}
		})
	}
	if without, with := allocations(nil), allocations(&spans{}); with > without {
		t.Errorf("an op outside of any trace costs %v allocations with a tracer, %v without", with, without)
	}
}
