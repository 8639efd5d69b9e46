package telemetry

import (
	"context"
	"log/slog"
	"sync"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exporter sends spans. It logs one line when the receiver fails and one when it is
// back, because a receiver that is down for a night must not fill the log. It returns
// no errors, because OpenTelemetry would print each of them.
type exporter struct {
	sdk.SpanExporter
	log      *slog.Logger
	endpoint string
	cutOff   context.Context // ends when Close abandons the export in progress
	cut      context.CancelFunc
	ended    chan struct{} // closed after the last export

	mu   sync.Mutex // guards lost; not held during an export
	lost int        // spans dropped since the receiver failed; 0 = the receiver works
}

func newExporter(to sdk.SpanExporter, log *slog.Logger, endpoint string) *exporter {
	e := &exporter{SpanExporter: to, log: log, endpoint: endpoint, ended: make(chan struct{})}
	e.cutOff, e.cut = context.WithCancel(context.Background())
	return e
}

// ExportSpans sends spans. One goroutine at a time calls it.
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
			e.log.Warn("the trace receiver fails; spans are dropped until it works", "endpoint", e.endpoint, "error", err)
		}
		e.lost += len(spans)
	case e.lost > 0:
		e.log.Info("the trace receiver works again", "endpoint", e.endpoint, "spans_dropped", e.lost)
		e.lost = 0
	}
	return nil
}

// Shutdown closes the exporter. It is called once, after the last ExportSpans.
func (e *exporter) Shutdown(ctx context.Context) error {
	defer close(e.ended)
	return e.SpanExporter.Shutdown(ctx)
}
