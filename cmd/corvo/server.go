package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/dataplane"
)

// Limits of connections. Bodies have none here: every route bounds its own. The
// write timeout counts from the request's header, so it must outlast a fetch that
// waits a minute; it is for clients that do not read their answer.
const (
	headerTimeout  = 10 * time.Second
	writeTimeout   = 2 * time.Minute
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// gcPercent is how much the heap of a server may grow between two collections
// where GOGC does not say. Almost all that a request allocates is garbage when it
// is answered, and the live heap is small: at Go's default of 100 the collector
// takes a tenth of the processor under load. A million jobs peak at 319 MB with
// this, 248 MB with the default.
const gcPercent = 300

func newServer() *cobra.Command {
	var cfg serverConfig
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a node",
		Long: "Run a node. Every flag can also be given as an environment variable\n" +
			"(--data-dir is CORVO_DATA_DIR) or as a line of the file named by --config\n" +
			"(data-dir: /var/lib/corvo); a flag wins over the environment, which wins over\n" +
			"the file.",
		Args: cobra.NoArgs,
	}
	bindFlags(cmd.Flags(), &cfg)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := fillFlags(cmd.Flags(), os.LookupEnv, cfg.Config); err != nil {
			return err
		}
		if err := cfg.check(); err != nil {
			return err
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(gcPercent)
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return runServer(ctx, cfg, cmd.OutOrStdout())
	}
	return cmd
}

// runServer serves until ctx ends, then finishes what is under way within the
// shutdown timeout.
func runServer(ctx context.Context, cfg serverConfig, out io.Writer) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: cfg.level()}))
	node, err := dataplane.Open(ctx, dataplane.Config{
		DataDir:        cfg.DataDir,
		NodeID:         cfg.NodeID,
		Version:        version,
		Dev:            cfg.Dev,
		MaxPayload:     cfg.MaxPayloadSize,
		SnapshotBytes:  cfg.SnapshotThreshold,
		ProposeTimeout: cfg.ProposeTimeout,
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
	}()

	listener, err := net.Listen("tcp", cfg.bind())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	greet(out, cfg, node, listener.Addr())
	srv := &http.Server{
		Handler:           node.Handler(),
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}

	logger.Info("shutting down", "timeout", cfg.ShutdownTimeout)
	node.Drain()
	closing, cancel := context.WithTimeout(context.Background(), cfg.ShutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(closing); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off by the shutdown timeout: %w", err), srv.Close())
	}
	return nil
}

// greet says where the node listens and how to talk to it, with a line that
// works when pasted.
func greet(out io.Writer, cfg serverConfig, node *dataplane.Node, addr net.Addr) {
	endpoint := "http://" + dialable(addr.String())
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

// dialable is an address to reach a listener by: one that is bound to every
// address is reached on loopback.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// loopback says whether every address behind a bind address is this machine's
// own.
func loopback(bind string) bool {
	host, _, err := net.SplitHostPort(bind)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
