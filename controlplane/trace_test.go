package controlplane

import (
	"net/http"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/corvo/corvo/tenancy/keyring"
)

// If a namespace is created within a trace, the trace contains the request, the reconciler's steps and,
// through the document, the actions of the host.
func TestOneTraceFromRequestToSettled(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	p := startPlane(t, func(c *Config) { c.Tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)) })
	h := p.startHost("h1", keyring.Host)
	h.be(true, "")
	_, admin := p.org("acme")
	req, err := http.NewRequestWithContext(t.Context(), "POST", p.front.URL+"/cloud/v1/orgs/acme/namespaces", strings.NewReader(`{"name":"orders"}`))
	if err != nil {
		t.Fatal(err)
	}
	const trace = "0af7651916cd43dd8448eb211c80319c"
	req.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	req.Header.Set("Authorization", "Bearer "+admin)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("create: %s", resp.Status)
	}
	ops, err := p.cloud(admin).Operations(t.Context(), "")
	if err != nil || len(ops) != 1 {
		t.Fatalf("operations: %+v, %v", ops, err)
	}
	until(t, "the host has the document, with the trace in it", func() bool {
		d, _ := h.doc(ops[0].Resource.ID)
		return strings.Contains(d.Trace, trace)
	})
	h.be(false, "")
	if _, err := p.cloud(admin).WaitOperation(t.Context(), ops[0].ID); err != nil {
		t.Fatal(err)
	}
	until(t, "request and steps are spans of the trace", func() bool {
		found := map[string]bool{}
		for _, span := range spans.Ended() {
			if span.SpanContext().TraceID().String() == trace {
				found[span.Name()] = true
			}
		}
		return found["POST /cloud/v1/orgs/{org}/namespaces"] && found["reconcile place"] && found["reconcile settle"]
	})
}
