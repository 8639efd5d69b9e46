package dataplane_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestTheHostWarnsOfItsCertificate takes the control plane away and moves the clock of the host's certificate through
// its last days.
func TestTheHostWarnsOfItsCertificate(t *testing.T) {
	t.Parallel()
	plane := fleettest.NewTLS(t)
	var clock fleettest.Clock
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
		Now: clock.Now, Logger: slog.New(slog.DiscardHandler),
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
	fleettest.Eventually(t, "the host is ready", func() bool { status, _ := fleettest.Ask(t, h.Handler(), "/readyz"); return status == http.StatusOK })
	plane.SetDown(true)
	fleettest.CheckExpiry(t, &clock, h.Handler(), h.OperatorMetrics())
}
