package engine_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/telemetry/otlptest"
)

// tracing returns a tracer provider that sends to a receiver; flush ends it and returns the spans.
func tracing(t testing.TB) (traces *telemetry.Tracing, flush func() []otlptest.Span) {
	t.Helper()
	receiver := otlptest.New(t)
	traces, err := telemetry.OpenTracing(context.Background(), telemetry.TraceConfig{Endpoint: receiver.URL()})
	if err != nil {
		t.Fatal(err)
	}
	return traces, func() []otlptest.Span {
		t.Helper()
		if err := traces.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		return receiver.Spans()
	}
}

// proposeIn proposes an add in a span with the given number.
func proposeIn(n *node, span int, sampled bool) error {
	flags := "00"
	if sampled {
		flags = "01"
	}
	ctx := telemetry.WithTraceparent(context.Background(), fmt.Sprintf("00-%032x-%016x-%s", 0xabc, span, flags))
	_, _, err := engine.Propose[int64](ctx, n.Group, add("k"))
	return err
}

// gate is a source of random bytes that can delay an entry, because each entry needs a seed after its ops
// were taken and before it is appended.
type gate struct {
	closed        atomic.Bool
	held, release chan struct{}
}

func newGate() *gate { return &gate{held: make(chan struct{}), release: make(chan struct{})} }

// hold delays the next entry until release is closed.
func (g *gate) hold() { g.closed.Store(true) }

func (g *gate) Read(p []byte) (int, error) {
	if g.closed.CompareAndSwap(true, false) {
		close(g.held)
		<-g.release
	}
	return rand.Read(p)
}

// waiting returns once the given number of ops is queued.
func (n *node) waiting(t testing.TB, ops int) {
	t.Helper()
	for {
		s, err := n.Status()
		if err != nil {
			t.Fatal(err)
		}
		if s.BacklogOps == ops {
			return
		}
		runtime.Gosched()
	}
}

// TestCommitAndApplySpans checks that the spans of a slow request show whether it waited for the log or for
// the store, and the other ops in its entry.
func TestCommitAndApplySpans(t *testing.T) {
	t.Parallel()
	traces, flush := tracing(t)
	g := newGate()
	n := openNode(t, t.TempDir(), func(c *engine.Config) { c.Tracer, c.Rand = traces.Provider(), g })
	var headers []entry.Trace
	n.machine.mu.Lock()
	n.machine.onApply = func(e entry.Entry) { headers = append(headers, e.Trace) }
	n.machine.mu.Unlock()
	var proposing sync.WaitGroup
	offer := func(span int, sampled bool) {
		proposing.Go(func() {
			if err := proposeIn(n, span, sampled); err != nil {
				t.Error(err)
			}
		})
	}
	g.hold()
	offer(1, true)
	<-g.held
	for i, sampled := range []bool{false, true, true, true} {
		offer(2+i, sampled)
		n.waiting(t, 1+i)
	}
	close(g.release)
	proposing.Wait()
	if err := proposeIn(n, 6, false); err != nil { // not sampled
		t.Error(err)
	}
	n.shut(t)

	spans := flush()
	if len(spans) != 4 {
		t.Fatalf("received\n%s", otlptest.Text(spans))
	}
	by := map[string]otlptest.Span{}
	for _, s := range spans {
		by[fmt.Sprint(s.Name, s.Attributes["corvo.entry.ops"])] = s
	}
	id := func(span int) string { return fmt.Sprintf("%016x", span) }
	for ops, parent := range map[int]int{1: 1, 4: 3} {
		commit, apply := by[fmt.Sprint("commit", ops)], by[fmt.Sprint("apply", ops)]
		if commit.ParentID != id(parent) || commit.TraceID != fmt.Sprintf("%032x", 0xabc) {
			t.Errorf("the commit of %d ops: %+v", ops, commit)
		}
		if apply.ParentID != commit.SpanID || apply.TraceID != commit.TraceID {
			t.Errorf("the apply of %d ops: %+v is not below %+v", ops, apply, commit)
		}
		if apply.Start.Before(commit.Start) || apply.End.After(commit.End) {
			t.Errorf("the apply of %d ops lasts from %v to %v, the commit from %v to %v", ops, apply.Start, apply.End, commit.Start, commit.End)
		}
		if commit.Attributes["corvo.group"] != "test/0" || commit.Attributes["corvo.entry.index"] != apply.Attributes["corvo.entry.index"] {
			t.Errorf("attributes %v and %v", commit.Attributes, apply.Attributes)
		}
	}
	links := by["commit4"].Links
	if len(links) != 2 || links[0].SpanID != id(4) || links[1].SpanID != id(5) {
		t.Errorf("the commit of 4 ops is linked to %v", links)
	}
	if len(headers) != 3 {
		t.Fatalf("headers %v, want three", headers)
	}
	if headers[0] == (entry.Trace{}) || headers[1] == headers[0] || headers[2] != (entry.Trace{}) {
		t.Errorf("headers %v", headers)
	}
}

// TestReplayMakesNoSpans checks that replayed entries make no spans. Their traces ended long ago, and new
// spans would say that the log took days.
func TestReplayMakesNoSpans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := openNode(t, dir, func(c *engine.Config) {
		traces, _ := tracing(t)
		c.Tracer = traces.Provider()
		t.Cleanup(func() { _ = traces.Close(context.Background()) })
	})
	for span := 1; span <= 3; span++ {
		if err := proposeIn(n, span, true); err != nil {
			t.Fatal(err)
		}
	}
	n.crash(t)
	traces, flush := tracing(t)
	again := openNode(t, dir, func(c *engine.Config) { c.Tracer = traces.Provider() })
	if got := again.machine.counter("k"); got != 3 {
		t.Fatalf("%d entries were replayed, want 3: the test shows nothing", got)
	}
	if err := proposeIn(again, 9, true); err != nil {
		t.Fatal(err)
	}
	again.shut(t)
	spans := flush()
	if len(spans) != 2 || spans[0].Name != "apply" || spans[1].Name != "commit" {
		t.Fatalf("received\n%s", otlptest.Text(spans))
	}
	if got, want := spans[1].ParentID, fmt.Sprintf("%016x", 9); got != want {
		t.Errorf("the commit is below %s, want %s", got, want)
	}
}

// TestCommitLinksAreBounded checks that the span of an entry has a bounded number of links, however many
// traces share the entry.
func TestCommitLinksAreBounded(t *testing.T) {
	t.Parallel()
	traces, flush := tracing(t)
	g := newGate()
	n := openNode(t, t.TempDir(), func(c *engine.Config) { c.Tracer, c.Rand = traces.Provider(), g })
	g.hold()
	var proposing sync.WaitGroup
	offer := func(span int) {
		proposing.Go(func() {
			if err := proposeIn(n, span, true); err != nil {
				t.Error(err)
			}
		})
	}
	offer(1)
	<-g.held
	const ops = telemetry.MaxLinks + 10
	for i := range ops {
		offer(2 + i)
	}
	n.waiting(t, ops)
	close(g.release)
	proposing.Wait()
	n.shut(t)
	for _, s := range flush() {
		if s.Name == "commit" && s.Attributes["corvo.entry.ops"] == int64(ops) {
			if len(s.Links) != telemetry.MaxLinks {
				t.Errorf("a commit of %d traces has %d links, want %d", ops, len(s.Links), telemetry.MaxLinks)
			}
			return
		}
	}
	t.Error("no commit of all ops at once")
}
