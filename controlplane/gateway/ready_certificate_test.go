package gateway_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"

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
	var clock fleettest.Clock
	held, err := certificate.Open(certificate.Config{
		Path: filepath.Join(t.TempDir(), certificate.FileName), Kind: certificate.Gateway, FleetRoot: plane.Root(),
		Now: clock.Now, Logger: slog.New(slog.DiscardHandler),
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
	fleettest.Eventually(t, "the gateway is ready", func() bool { status, _ := fleettest.Ask(t, g, "/readyz"); return status == http.StatusOK })
	plane.SetDown(true)
	fleettest.CheckExpiry(t, &clock, g, metrics.Handler())
}
