package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/cmd/internal/datadir"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/engine/cluster"
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
			return misuse.Of(err)
		}
		if err := cfg.check(cmd.Flags().Changed); err != nil {
			return err
		}
		front.TuneGC()
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return runServer(ctx, cfg, cmd.OutOrStdout())
	}
	return cmd
}

// runServer serves until ctx ends, then finishes pending requests within the shutdown timeout.
func runServer(ctx context.Context, cfg serverConfig, out io.Writer) error {
	logger, err := settings.Logger(cfg.LogLevel)
	if err != nil {
		return err
	}
	tracing, err := telemetry.OpenTracing(ctx, telemetry.TraceConfig{
		Endpoint: cfg.OTelEndpoint, Service: "corvo", Instance: cfg.NodeID, Version: version, Logger: logger,
	})
	if err != nil {
		return misusef("--otel-endpoint: %w", err)
	}
	if err := datadir.Check(cfg.DataDir, datadir.Node); err != nil {
		return err
	}
	if cfg.Durability == relaxed {
		logger.Warn(relaxedWarning)
	}
	if cfg.NodeID, err = cfg.nodeID(); err != nil {
		return err
	}
	token, err := cfg.ready(os.LookupEnv)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.bind())
	if err != nil {
		return fmt.Errorf("--bind: %w", err)
	}
	of, err := cfg.membership(listener.Addr(), token)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	// Serve before the node is open, see front.Starting.
	starting := &front.Starting{}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- front.Serve(serving, listener, front.Config{
			Handler: starting, Drain: starting.Drain, ShutdownTimeout: cfg.ShutdownTimeout, MaxConnections: int(cfg.MaxConnections), Logger: logger,
		})
	}()
	node, err := openNode(ctx, cfg, of, tracing.Provider(), logger)
	if err != nil {
		stop()
		err = errors.Join(err, <-served, tracing.Close(context.WithoutCancel(ctx)))
		if ctx.Err() != nil {
			logger.Info("the node stopped before it was open", "why", err)
			return nil
		}
		return err
	}
	starting.Open(node)
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), cfg.ShutdownTimeout)
		defer cancel()
		if err := node.Close(closing); err != nil {
			logger.Error("the node did not close cleanly; acknowledged writes are safe", "error", err)
		}
		if err := tracing.Close(closing); err != nil {
			logger.Warn("the trace receiver did not take the last spans", "error", err)
		}
	}()
	if of != nil {
		fmt.Fprintf(out, "other nodes connect to %s\n", of.Listener.Addr())
	}
	greet(out, cfg, node, front.URL(listener.Addr()))
	return <-served
}

// openNode opens the node. It may wait as long as ctx lasts while the node looks for its cluster.
func openNode(ctx context.Context, cfg serverConfig, of *cluster.Config, tracer trace.TracerProvider, logger *slog.Logger) (*dataplane.Node, error) {
	return dataplane.Open(ctx, dataplane.Config{
		DataDir:        cfg.DataDir,
		NodeID:         cfg.NodeID,
		Version:        version,
		Dev:            cfg.Dev,
		MaxPayload:     cfg.MaxPayloadSize,
		Retention:      cfg.Retention,
		FeedBytes:      uint64(cfg.MaxFeedBytes),
		ViewLagLimit:   cfg.ViewLagLimit,
		ProposeTimeout: cfg.ProposeTimeout,
		StreamRate:     int(cfg.StreamRate),
		StreamFrames:   int(cfg.StreamFrames),
		MaxStreams:     int(cfg.MaxStreams),
		Engine:         cfg.tuning(),
		Cluster:        of,
		Shards:         int(cfg.Shards),
		Limits:         cfg.Limits(),
		Webhooks:       cell.Webhooks{Private: cfg.PrivateWebhooks},
		Tracer:         tracer,
		Logger:         logger,
	})
}

// greet prints the node's address and a command line that works when pasted.
func greet(out io.Writer, cfg serverConfig, node *dataplane.Node, endpoint string) {
	fmt.Fprintf(out, "corvo %s listens on %s, data in %s\n", version, endpoint, cfg.DataDir)
	auth := ""
	switch {
	case cfg.Dev:
		fmt.Fprintln(out, "--dev: open to everybody on this machine, no key is needed. Not for production.")
	case node.FirstKey != "":
		auth = " -H 'Authorization: Bearer " + node.FirstKey + "'"
		fmt.Fprintf(out, "admin key (shown this once, kept in %s): %s\n", filepath.Join(cfg.DataDir, dataplane.AdminKeyFile), node.FirstKey)
	case !hasKeyFile(cfg.DataDir): // another node of the cluster made the key
		auth = " -H \"Authorization: Bearer $CORVO_API_KEY\""
	default:
		auth = " -H \"Authorization: Bearer $(cat " + filepath.Join(cfg.DataDir, dataplane.AdminKeyFile) + ")\""
	}
	fmt.Fprintf(out, "try: curl -s %s/api/v1/enqueue%s -d '{\"queue\":\"hello\",\"payload\":{\"name\":\"world\"}}'\n", endpoint, auth)
}

func hasKeyFile(dataDir string) bool {
	_, err := os.Stat(filepath.Join(dataDir, dataplane.AdminKeyFile))
	return err == nil
}
