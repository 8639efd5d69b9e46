package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/cmd/internal/datadir"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/controlplane/gateway"
	"github.com/corvo/corvo/telemetry"
)

// gatewayConfig is the configuration of `corvo-cloud gateway`.
type gatewayConfig struct {
	process
	joining
	settings.Admission
	settings.TLS
	measured
	RatePerNamespace int64         `flag:"rate-limit-per-namespace" doc:"limit on requests a second of one namespace to this gateway (default: no limit)"`
	RatePerOrg       int64         `flag:"rate-limit-per-org" doc:"limit on requests a second of one organisation to this gateway (default: no limit)"`
	MaxRequests      int64         `flag:"max-requests-per-namespace" default:"10000" doc:"limit on requests of one namespace under way, with waiting polls and streams"`
	Bind             string        `flag:"bind" default:":8080" doc:"address for requests of tenants"`
	HostWait         time.Duration `flag:"host-wait" default:"10s" doc:"longest wait of a request for a host that restarts or moves"`
	DataDir          string        `flag:"data-dir" default:"data" doc:"directory for namespace documents, used after a restart without a reachable control plane"`
}

func newGateway() *cobra.Command {
	var cfg gatewayConfig
	return command("gateway", "Run a gateway", &cfg, &cfg.Config,
		func(ctx context.Context, cmd *cobra.Command) error { return cfg.run(ctx, cmd.OutOrStdout()) })
}

func (cfg *gatewayConfig) check(f *misuse.Faults) {
	cfg.process.check(f)
	cfg.joining.check(f, "gateway")
	cfg.Admission.Check(f.Refuse)
	cfg.TLS.Check(f.Refuse)
	cfg.measured.check(f)
	checkBind(f, "--bind", cfg.Bind)
	f.Refuse(cfg.DataDir != "", "--data-dir is empty")
	for flag, n := range map[string]int64{"rate-limit-per-namespace": cfg.RatePerNamespace, "rate-limit-per-org": cfg.RatePerOrg} {
		f.Refuse(n >= 0 && n <= ratelimit.MaxRate, "--%s is %d; it must be between 0, for no limit, and %d", flag, n, ratelimit.MaxRate)
	}
	f.Refuse(cfg.MaxRequests > 0 && cfg.MaxRequests <= settings.MaxConnections, "--max-requests-per-namespace is %d; it must be between 1 and %d", cfg.MaxRequests, settings.MaxConnections)
	f.Refuse(cfg.HostWait > 0, "--host-wait is %v; it must be more than 0", cfg.HostWait)
}

func (cfg *gatewayConfig) run(ctx context.Context, out io.Writer) (err error) {
	credential, err := cfg.credential()
	if err != nil {
		return err
	}
	if err := datadir.Check(cfg.DataDir, datadir.Gateway); err != nil {
		return err
	}
	r, err := cfg.begin(ctx, "corvo-gateway", cfg.Bind)
	if err != nil {
		return err
	}
	serving := front.Config{
		ShutdownTimeout: cfg.ShutdownTimeout, MaxConnections: int(cfg.MaxConnections), FilesPerConnection: 2, Logger: r.log,
	}
	if cfg.CertFile != "" {
		public, err := front.OpenCertificate(cfg.CertFile, cfg.KeyFile, r.log)
		if err != nil {
			return cfg.end(ctx, r, misuse.Errorf("--tls-cert-file, --tls-key-file: %w", err))
		}
		serving.TLS = public.Config()
	}
	dir := filepath.Join(cfg.DataDir, "gateway")
	held, err := cfg.openCertificate(dir, certificate.Config{Kind: certificate.Gateway, Logger: r.log})
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	limits := cfg.Limits()
	limits.PerNamespace, limits.PerOrg = cfg.RatePerNamespace, cfg.RatePerOrg
	metrics := telemetry.NewRegistry()
	gw, err := gateway.New(gateway.Config{
		DataDir:      dir,
		Metrics:      metrics,
		ControlPlane: cfg.ControlPlane,
		Credential:   credential,
		Version:      version,
		Certificate:  held,
		Limits:       limits,
		MaxRequests:  int(cfg.MaxRequests),
		HostWait:     cfg.HostWait,
		Tracer:       r.tracer(),
		Logger:       r.log,
	})
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	listener, err := listen(cfg.Bind)
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	measured, err := cfg.serveMetrics(ctx, out, metrics.Handler(), gw, &cfg.process, r)
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	defer func() { err = errors.Join(err, measured()) }()
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	followed := make(chan error, 1)
	go func() { followed <- gw.Run(following) }()
	fmt.Fprintf(out, "the gateway listens on %s\n", serving.URL(listener.Addr()))
	serving.Handler, serving.Drain = gw, gw.Drain
	err = front.Serve(ctx, listener, serving)
	return cfg.end(ctx, r, err, func(context.Context) error {
		stop() // ships the last counts before it ends
		if err := <-followed; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}
