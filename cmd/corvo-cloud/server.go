package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/cmd/internal/allinone"
	"github.com/corvo/corvo/cmd/internal/datadir"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/controlplane"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy/keyring"
)

// serverConfig is the configuration of `corvo-cloud server`.
type serverConfig struct {
	process
	Bind     string `flag:"bind" default:":8081" doc:"address for the cloud API and for gateways and hosts"`
	DataDir  string `flag:"data-dir" default:"data" doc:"directory for all data"`
	NodeID   string `flag:"node-id" default:"control-1" doc:"permanent name of this process in the control plane"`
	Endpoint string `flag:"endpoint" doc:"URL of the gateway, shown as the endpoint of namespaces"`
}

// operatorKeyFile is the file below the data directory with the first operator's key.
const operatorKeyFile = "operator.key"

func newServer() *cobra.Command {
	var cfg serverConfig
	return command("server", "Run the control plane", &cfg, &cfg.Config,
		func(ctx context.Context, cmd *cobra.Command) error { return cfg.run(ctx, cmd.OutOrStdout()) })
}

func (cfg *serverConfig) check(f *misuse.Faults) {
	cfg.process.check(f)
	checkBind(f, "--bind", cfg.Bind)
	f.Refuse(cfg.DataDir != "", "--data-dir is empty")
	checkURL(f, "--endpoint", cfg.Endpoint, "the URL at which tenants reach the gateway", "https://queue.example.com")
}

func (cfg *serverConfig) run(ctx context.Context, out io.Writer) error {
	if err := datadir.Check(cfg.DataDir, datadir.ControlPlane); err != nil {
		return err
	}
	r, err := cfg.begin(ctx, "corvo-control-plane", cfg.NodeID)
	if err != nil {
		return err
	}
	if err := durable.MakeDir(cfg.DataDir, 0o700); err != nil {
		return cfg.end(ctx, r, fmt.Errorf("--data-dir: %w", err))
	}
	listener, err := listen(cfg.Bind)
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	plane, err := controlplane.Open(ctx, controlplane.Config{
		DataDir:  filepath.Join(cfg.DataDir, "controlplane"),
		NodeID:   cfg.NodeID,
		Endpoint: cfg.Endpoint,
		Version:  version,
		Tracer:   r.tracer(),
		Logger:   r.log,
	})
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	path := filepath.Join(cfg.DataDir, operatorKeyFile)
	key, err := allinone.Secret(path, keyring.CloudOperator)
	if err == nil {
		err = plane.EnsureOperator(ctx, key)
	}
	if api.CodeOf(err) == api.Conflict {
		r.log.Warn("the operator's key in the data directory was revoked or has expired", "file", path, "error", err)
		err = nil
	}
	if err != nil {
		return cfg.end(ctx, r, fmt.Errorf("operator key: %w", err), plane.Close)
	}
	fmt.Fprintf(out, "the operator's key is in %s\n", path)
	fmt.Fprintf(out, "the control plane listens on %s\n", front.URL(listener.Addr()))
	err = front.Serve(ctx, listener, front.Config{
		Handler: plane.Handler(), Drain: plane.Drain, ShutdownTimeout: cfg.ShutdownTimeout, Logger: r.log,
	})
	return cfg.end(ctx, r, err, plane.Close)
}
