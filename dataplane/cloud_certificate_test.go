package dataplane_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestTheHostWarnsOfItsCertificate takes the control plane away and moves the clock of the host's certificate through
// its last days.
func TestTheHostWarnsOfItsCertificate(t *testing.T) {
	t.Parallel()
	plane := fleettest.NewTLS(t)
	var ahead atomic.Int64
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := host.OpenStore(dir, rand.Reader, 1)
	if err != nil {
		t.Fatal(err)
	}
	held, err := certificate.Open(certificate.Config{
		Path: filepath.Join(dir, certificate.FileName), Kind: certificate.Host, Store: store, FleetRoot: plane.Root(),
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := dataplane.OpenHost(t.Context(), dataplane.HostConfig{
		DataDir: dir, ControlPlane: plane.URL, Credential: plane.Register("host_1", keyring.Host), Certificate: held,
		Address: "https://127.0.0.1:1", Version: "test", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		h.Drain()
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ask := func(to http.Handler, path string) (int, string) {
		w := httptest.NewRecorder()
		to.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	fleettest.Eventually(t, "the host is ready", func() bool { status, _ := ask(h.Handler(), "/readyz"); return status == http.StatusOK })
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
		if status, says := ask(h.Handler(), "/readyz"); status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("%v after the issue: %d %s", c.ahead, status, says)
		}
	}
	if _, says := ask(h.OperatorMetrics(), "/metrics"); !strings.Contains(says, "\n"+telemetry.CertificateRemaining.Name+" 0\n") {
		t.Error("the metrics of an expired certificate:", says)
	}
}
