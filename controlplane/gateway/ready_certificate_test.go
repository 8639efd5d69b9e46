package gateway_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/controlplane/gateway"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestReadinessWarnsOfTheCertificate takes the control plane away and moves the clock of the gateway's certificate through
// its last days.
func TestReadinessWarnsOfTheCertificate(t *testing.T) {
	t.Parallel()
	plane := fleettest.NewTLS(t)
	var ahead atomic.Int64
	held, err := certificate.Open(certificate.Config{
		Path: filepath.Join(t.TempDir(), certificate.FileName), Kind: certificate.Gateway, FleetRoot: plane.Root(),
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	metrics := telemetry.NewRegistry()
	g, err := gateway.New(gateway.Config{
		ControlPlane: plane.URL, Credential: plane.Register("gw_1", keyring.Gateway), Certificate: held,
		Metrics: metrics, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	ask := func(h http.Handler, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	fleettest.Eventually(t, "the gateway is ready", func() bool { status, _ := ask(g, "/readyz"); return status == http.StatusOK })
	plane.SetDown(true)
	for _, c := range []struct {
		ahead  time.Duration
		status int
		says   string
	}{
		{0, http.StatusOK, `"certificate":"ok"`},
		{certificate.Life - certificate.AlarmBefore - time.Minute, http.StatusOK, `"certificate":"ok"`},
		{certificate.Life - certificate.AlarmBefore + time.Minute, http.StatusOK, `"certificate":"the certificate expires at `},
		{certificate.Life + time.Minute, http.StatusServiceUnavailable, "was valid until"},
	} {
		ahead.Store(int64(c.ahead))
		if status, says := ask(g, "/readyz"); status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("%v after the issue: %d %s", c.ahead, status, says)
		}
	}
	if _, says := ask(metrics.Handler(), "/metrics"); !strings.Contains(says, "\n"+telemetry.CertificateRemaining.Name+" 0\n") {
		t.Error("the metrics of an expired certificate:", says)
	}
}
