package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/cmd/internal/datadir"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/engine/cluster"
)

// hostConfig is the configuration of `corvo-cloud host`.
type hostConfig struct {
	process
	joining
	measured
	supervised
	settings.View
	Bind      string `flag:"bind" default:":8082" doc:"address for requests of gateways"`
	Advertise string `flag:"advertise" doc:"URL at which gateways reach the host (default: --bind on loopback)"`
	DataDir   string `flag:"data-dir" default:"data" doc:"directory for the data of all namespaces on this host"`

	RaftBind      string `flag:"raft-bind" doc:"address for connections of other hosts (default \":8083\", with --insecure none)"`
	RaftAdvertise string `flag:"raft-advertise" doc:"name or address at which other hosts reach --raft-bind (default: its host, or the first address of this machine)"`

	MaxDiskPercent int64 `flag:"max-disk-percent" default:"80" doc:"use of the disk in percent from which on the host gets no new namespace"`
}

// leavingNotice is how long gateways have to learn that a host shuts down. A gateway that sends the host at
// least one request within this time loses none.
const leavingNotice = 250 * time.Millisecond

// defaultHostRaftBind is the default of --raft-bind of a host with a certificate.
const defaultHostRaftBind = ":8083"

func newHost() *cobra.Command {
	var cfg hostConfig
	return command("host", "Run a data-plane host", &cfg, &cfg.Config,
		func(ctx context.Context, cmd *cobra.Command) error { return cfg.run(ctx, cmd.OutOrStdout()) })
}

func (cfg *hostConfig) check(f *misuse.Faults) {
	cfg.process.check(f)
	cfg.joining.check(f, "host")
	cfg.View.Check(f.Refuse)
	checkBind(f, "--bind", cfg.Bind)
	cfg.insecurity.checkBind(f, cfg.Bind)
	f.Refuse(cfg.Advertise == "" || settings.IsURL(cfg.Advertise), "--advertise is %q; it must be a URL such as https://10.0.0.7:8082", cfg.Advertise)
	cfg.insecurity.checkURL(f, "--advertise", cfg.Advertise)
	checkRaft(f, cfg.RaftBind, cfg.RaftAdvertise, "host-1.example.com")
	f.Refuse(!cfg.Insecure || cfg.RaftBind == "" && cfg.RaftAdvertise == "", "--raft-bind and --raft-advertise need a certificate: leave them or --insecure out")
	f.Refuse(cfg.DataDir != "", "--data-dir is empty")
	f.Refuse(cfg.MaxDiskPercent >= 1 && cfg.MaxDiskPercent <= 100, "--max-disk-percent is %d; it must be 1 to 100", cfg.MaxDiskPercent)
	cfg.measured.check(f)
}

func (cfg *hostConfig) run(ctx context.Context, out io.Writer) (err error) {
	ctx, stop := cfg.untilStdinEnds(ctx)
	defer stop()
	credential, err := cfg.credential()
	if err != nil {
		return err
	}
	if err := datadir.Check(cfg.DataDir, datadir.Host); err != nil {
		return err
	}
	store, err := host.OpenStore(cfg.DataDir, rand.Reader, time.Now().UnixNano())
	if err != nil {
		return err
	}
	r, err := cfg.begin(ctx, "corvo-host", store)
	if err != nil {
		return err
	}
	held, err := cfg.openCertificate(cfg.DataDir, certificate.Config{Kind: certificate.Host, Store: store, Logger: r.log})
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	listener, err := listen(cfg.Bind)
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	raft, raftAddress, err := cfg.listenRaft(held, r.log)
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	serving := front.Config{ShutdownTimeout: cfg.ShutdownTimeout, Logger: r.log}
	if held != nil {
		serving.TLS = fleet.HostServer(held)
	}
	opened, err := dataplane.OpenHost(ctx, dataplane.HostConfig{
		DataDir:      cfg.DataDir,
		ControlPlane: cfg.ControlPlane,
		Credential:   credential,
		Address:      cmp.Or(cfg.Advertise, serving.URL(listener.Addr())),
		Version:      version,
		Certificate:  held,
		Raft:         raft,
		RaftAddress:  raftAddress,

		MaxDiskPercent: int(cfg.MaxDiskPercent),

		FeedBytes:    uint64(cfg.MaxFeedBytes),
		ViewLagLimit: cfg.ViewLagLimit,
		Tracer:       r.tracer(),
		Logger:       r.log,
	})
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	measured, err := cfg.serveMetrics(ctx, out, opened.OperatorMetrics(), opened.Handler(), &cfg.process, r)
	if err != nil {
		return cfg.end(ctx, r, err, opened.Close)
	}
	defer func() { err = errors.Join(err, measured()) }()
	if raft != nil {
		fmt.Fprintf(out, "other hosts reach it at %s\n", raftAddress)
	}
	fmt.Fprintf(out, "the host listens on %s\n", serving.URL(listener.Addr()))
	serving.Handler, serving.Drain, serving.Notice = opened.Handler(), opened.Drain, leavingNotice
	err = front.Serve(ctx, listener, serving)
	return cfg.end(ctx, r, err, opened.Close)
}

// listenRaft opens the listener for the Raft members on other hosts, and returns the address at which they reach it. A
// host without a certificate has no listener and no address.
func (cfg *hostConfig) listenRaft(held *certificate.Holder, log *slog.Logger) (_ net.Listener, address string, err error) {
	if held == nil {
		return nil, "", nil
	}
	listener, err := net.Listen("tcp", cmp.Or(cfg.RaftBind, defaultHostRaftBind))
	if err != nil {
		return nil, "", fmt.Errorf("--raft-bind: %w", err)
	}
	address, guessed, err := cluster.Advertise(cfg.RaftAdvertise, listener.Addr())
	if err != nil {
		return nil, "", errors.Join(err, listener.Close())
	}
	if guessed != "" {
		log.Warn("other hosts cannot reach this one: "+guessed, "address", address)
	}
	return listener, address, nil
}
