package server

import (
	"net/http/httptest"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/telemetry"
)

// Without tracing an operation allocates nothing.
func TestNoSpanNoWork(t *testing.T) {
	q := &request{}
	r := httptest.NewRequest("POST", "/", nil)
	record := &job.Job{Headers: []*job.Pair{{Name: "traceparent", Value: "00-11111111111111111111111111111111-2222222222222222-00"}}}
	allocated := testing.AllocsPerRun(100, func() {
		same, span := q.beginSpan(r, telemetry.SpanFetch, telemetry.OperationReceive)
		span.queue("q")
		span.message("job", 1)
		span.batch(3)
		span.link(record)
		span.usage(&job.Usage{})
		span.became("dead")
		span.keep()
		span.end(nil)
		if same != r {
			t.Error("an operation without a span gets another request")
		}
		if span != nil || span.linkable() || span.wanted(r) {
			t.Error("there is a span where nothing is traced")
		}
	})
	if allocated > 0 {
		t.Errorf("no span costs %v allocations", allocated)
	}
}
