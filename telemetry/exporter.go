package telemetry

import (
	"context"
	"log/slog"
	"sync"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exporter sends spans and tells the log when the receiver fails and when it is
// back, once each: a receiver that is gone for a night must not fill the log. It
// answers no errors, for OpenTelemetry's own way is to print each of them.
type exporter struct {
	sdk.SpanExporter
	log      *slog.Logger
	endpoint string
	cutOff   context.Context // ends when what is under way is given up
	cut      context.CancelFunc
	ended    chan struct{} // closed when there will be no more

	mu   sync.Mutex // guards lost; sending is not held under it
	lost int        // spans since the receiver failed; 0 = it works
}

func newExporter(to sdk.SpanExporter, log *slog.Logger, endpoint string) *exporter {
	e := &exporter{SpanExporter: to, log: log, endpoint: endpoint, ended: make(chan struct{})}
	e.cutOff, e.cut = context.WithCancel(context.Background())
	return e
}

// ExportSpans is called by one goroutine at a time.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.cutOff, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil:
		if e.lost == 0 {
			e.log.Warn("traces cannot be sent; spans are dropped until they can", "endpoint", e.endpoint, "error", err)
		}
		e.lost += len(spans)
	case e.lost > 0:
		e.log.Info("traces are sent again", "endpoint", e.endpoint, "spans_dropped", e.lost)
		e.lost = 0
	}
	return nil
}

// Shutdown is called once, after the last ExportSpans.
func (e *exporter) Shutdown(ctx context.Context) error {
	defer close(e.ended)
	return e.SpanExporter.Shutdown(ctx)
}
