package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/telemetry"
)

func newServer() *cobra.Command {
	var cfg serverConfig
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a node",
		Long:  "Run a node.\n\n" + settings.Help,
		Args:  cobra.NoArgs,
	}
	settings.Bind(cmd.Flags(), &cfg)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings.Fill(cmd.Flags(), os.LookupEnv, cfg.Config); err != nil {
			return err
		}
		if err := cfg.check(); err != nil {
			return err
		}
		front.TuneGC()
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return runServer(ctx, cfg, cmd.OutOrStdout())
	}
	return cmd
}

// runServer serves until ctx ends, then finishes what is under way within the
// shutdown timeout.
func runServer(ctx context.Context, cfg serverConfig, out io.Writer) error {
	logger, err := settings.Logger(cfg.LogLevel)
	if err != nil {
		return err
	}
	tracing, err := telemetry.OpenTracing(ctx, telemetry.TraceConfig{
		Endpoint: cfg.OTelEndpoint, Service: "corvo", Instance: cfg.NodeID, Version: version, Logger: logger,
	})
	if err != nil {
		return fmt.Errorf("--otel-endpoint: %w", err)
	}
	node, err := dataplane.Open(ctx, dataplane.Config{
		DataDir:        cfg.DataDir,
		NodeID:         cfg.NodeID,
		Version:        version,
		Dev:            cfg.Dev,
		MaxPayload:     cfg.MaxPayloadSize,
		SnapshotBytes:  cfg.SnapshotThreshold,
		ProposeTimeout: cfg.ProposeTimeout,
		Tracer:         tracing.Provider(),
		Logger:         logger,
	})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), cfg.ShutdownTimeout)
		defer cancel()
		if err := node.Close(closing); err != nil {
			logger.Error("the node did not close cleanly; nothing acknowledged is lost", "error", err)
		}
		if err := tracing.Close(closing); err != nil {
			logger.Warn("the last spans did not reach their receiver", "error", err)
		}
	}()

	listener, err := net.Listen("tcp", cfg.bind())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	greet(out, cfg, node, front.URL(listener.Addr()))
	return front.Serve(ctx, listener, front.Config{
		Handler:         node.Handler(),
		Drain:           node.Drain,
		ShutdownTimeout: cfg.ShutdownTimeout,
		Logger:          logger,
	})
}

// greet says where the node listens and how to talk to it, with a line that
// works when pasted.
func greet(out io.Writer, cfg serverConfig, node *dataplane.Node, endpoint string) {
	fmt.Fprintf(out, "corvo %s listens on %s, data in %s\n", version, endpoint, cfg.DataDir)
	auth := ""
	switch {
	case cfg.Dev:
		fmt.Fprintln(out, "--dev: open to everybody on this machine, no key is needed. Not for production.")
	case node.FirstKey != "":
		auth = " -H 'Authorization: Bearer " + node.FirstKey + "'"
		fmt.Fprintf(out, "admin key (shown this once, kept in %s): %s\n", filepath.Join(cfg.DataDir, dataplane.AdminKeyFile), node.FirstKey)
	default:
		auth = " -H \"Authorization: Bearer $(cat " + filepath.Join(cfg.DataDir, dataplane.AdminKeyFile) + ")\""
	}
	fmt.Fprintf(out, "try: curl -s %s/api/v1/enqueue%s -d '{\"queue\":\"hello\",\"payload\":{\"name\":\"world\"}}'\n", endpoint, auth)
}
