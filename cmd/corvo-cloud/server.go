package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/cmd/internal/allinone"
	"github.com/corvo/corvo/cmd/internal/datadir"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/controlplane"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/tenancy/keyring"
)

// serverConfig is the configuration of `corvo-cloud server`.
type serverConfig struct {
	process
	insecurity
	Bind          string `flag:"bind" default:":8081" doc:"address for the cloud API and for gateways and hosts"`
	Advertise     string `flag:"advertise" doc:"URL at which clients reach this process, for the other processes (default: the host of --raft-advertise with the port of --bind)"`
	DataDir       string `flag:"data-dir" default:"data" doc:"directory for all data"`
	NodeID        string `flag:"node-id" doc:"permanent name of this process in the control plane (default: the name in --data-dir; at the first start control-1, or the host name if the process joins others)"`
	Endpoint      string `flag:"endpoint" doc:"URL of the gateway, shown as the endpoint of namespaces"`
	Bootstrap     bool   `flag:"bootstrap" doc:"found a control plane of several processes, or go on in the one of --data-dir"`
	Join          string `flag:"join" doc:"addresses of processes whose control plane to join, host:port,..."`
	JoinTokenFile string `flag:"join-token-file" doc:"file with the secret that all processes share; or CORVO_JOIN_TOKEN, or the file controlplane/join-token in --data-dir, which the founder creates"`
	RaftBind      string `flag:"raft-bind" doc:"address for connections of other processes (default \":9400\" with --bootstrap or --join, otherwise none)"`
	RaftAdvertise string `flag:"raft-advertise" doc:"name or address at which other processes reach --raft-bind (default: its host, or the first address of this machine)"`

	HostGrace time.Duration `flag:"host-grace" default:"10m" doc:"time without a report after which a host counts as dead and its copies are replaced"`
}

const (
	defaultRaftBind = ":9400"
	// founderName is the default name of the process that founds its control plane.
	founderName = "control-1"
)

// clustered reports whether this process is one of several.
func (cfg *serverConfig) clustered() bool { return cfg.Bootstrap || cfg.Join != "" }

// planeDir returns the directory of the control plane's state.
func (cfg *serverConfig) planeDir() string { return filepath.Join(cfg.DataDir, "controlplane") }

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
	cfg.insecurity.checkBind(f, cfg.Bind)
	f.Refuse(cfg.Advertise == "" || settings.IsURL(cfg.Advertise), "--advertise is %q; it must be a URL such as https://control-1.example.com:8081", cfg.Advertise)
	cfg.insecurity.checkURL(f, "--advertise", cfg.Advertise)
	f.Refuse(cfg.HostGrace >= controlplane.MinHostGrace, "--host-grace is %v; it must be at least %v, because hosts report every few seconds", cfg.HostGrace, controlplane.MinHostGrace)
	f.Refuse(!cfg.Bootstrap || cfg.Join == "", "--bootstrap and --join exclude each other: give one of them")
	f.Refuse(cfg.clustered() || cfg.RaftBind == "" && cfg.RaftAdvertise == "" && cfg.JoinTokenFile == "", "--raft-bind, --raft-advertise and --join-token-file need --bootstrap or --join")
	checkRaft(f, cfg.RaftBind, cfg.RaftAdvertise, "control-1.example.com")
	for _, address := range settings.List(cfg.Join) {
		f.Refuse(settings.IsPeer(address), "--join has %q; it must be host:port, such as control-1.example.com%s", address, defaultRaftBind)
	}
	f.Refuse(len(cfg.NodeID) <= engine.MaxGroupName, "--node-id has %d bytes; it must have at most %d", len(cfg.NodeID), engine.MaxGroupName)
}

func (cfg *serverConfig) run(ctx context.Context, out io.Writer) error {
	if err := datadir.Check(cfg.DataDir, datadir.ControlPlane); err != nil {
		return err
	}
	if err := cfg.name(); err != nil {
		return err
	}
	r, err := cfg.begin(ctx, "corvo-control-plane", cfg.NodeID)
	if err != nil {
		return err
	}
	if err := durable.MakeDir(cfg.DataDir, 0o700); err != nil {
		return cfg.end(ctx, r, fmt.Errorf("--data-dir: %w", err))
	}
	// Serve before the control plane is open, see front.Starting.
	starting := &front.Starting{}
	public := front.Config{Handler: starting, Drain: starting.Drain, ShutdownTimeout: cfg.ShutdownTimeout, Logger: r.log}
	held, err := cfg.openCertificate(r)
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	if held != nil {
		public.TLS = fleet.ControlPlaneServer(held)
	}
	listener, err := listen(cfg.Bind)
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- front.Serve(serving, listener, public) }()
	plane, err := cfg.open(ctx, out, r, listener.Addr(), held)
	if err != nil {
		stop()
		return cfg.end(ctx, r, r.unopened(ctx, "control plane", errors.Join(err, <-served)))
	}
	starting.Open(plane)
	fmt.Fprintf(out, "the control plane listens on %s\n", public.URL(listener.Addr()))
	return cfg.end(ctx, r, <-served, plane.Close)
}

// openCertificate opens the file with the certificate of this process, with which the listener can serve before the
// control plane is open. It returns nil with --insecure.
func (cfg *serverConfig) openCertificate(r *running) (*certificate.Holder, error) {
	if cfg.Insecure {
		return nil, nil
	}
	if (certificate.Identity{Kind: certificate.ControlPlane, ID: cfg.NodeID}).Validate() != nil {
		return nil, misuse.Errorf("--node-id is %q; it must be 1 to %d letters, digits, '-', '_' or '.', because the certificate of this process names it", cfg.NodeID, certificate.MaxName)
	}
	return certificate.Open(certificate.Config{
		Path: filepath.Join(cfg.planeDir(), certificate.FileName), Kind: certificate.ControlPlane, Logger: r.log,
	})
}

// name sets NodeID to the name in the data directory, or else to the given name or a default.
func (cfg *serverConfig) name() error {
	fresh := founderName
	if cfg.Join != "" {
		host, err := os.Hostname()
		if err != nil && cfg.NodeID == "" {
			return fmt.Errorf("--node-id is not given and the host has no name: %w", err)
		}
		fresh = host
	}
	var err error
	cfg.NodeID, err = cluster.NodeID(cfg.planeDir(), cfg.NodeID, fresh)
	return err
}

// open opens the control plane and ensures that it has an operator's key. It waits as long as ctx lasts for the
// other processes. http is the address of the listener for clients, and held the certificate with which it serves.
func (cfg *serverConfig) open(ctx context.Context, out io.Writer, r *running, http net.Addr, held *certificate.Holder) (*controlplane.Plane, error) {
	of, err := cfg.membership(http)
	if err != nil {
		return nil, err
	}
	roots := filepath.Join(cfg.DataDir, rootFile)
	plane, err := controlplane.Open(ctx, controlplane.Config{
		DataDir:     cfg.planeDir(),
		NodeID:      cfg.NodeID,
		Endpoint:    cfg.Endpoint,
		Version:     version,
		Certificate: held,
		Names:       cfg.names(),
		RootsFile:   roots,
		Cluster:     of,
		HostGrace:   cfg.HostGrace,
		Tracer:      r.tracer(),
		Logger:      r.log,
	})
	if err != nil {
		return nil, err
	}
	if err := cfg.ensureOperator(ctx, out, r, plane); err != nil {
		return nil, errors.Join(fmt.Errorf("operator key: %w", err), plane.Close(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(out, "the SHA-256 of the fleet's root is %s\n", plane.FleetRoot())
	fmt.Fprintf(out, "the fleet's root is in %s\n", roots)
	if of != nil {
		fmt.Fprintf(out, "other processes connect to %s\n", of.Listener.Addr())
	}
	return plane, nil
}

// membership opens the listener for other processes and returns how this process joins them, or nil if it is the
// only one. http is the address of the listener for clients.
func (cfg *serverConfig) membership(http net.Addr) (_ *cluster.Config, err error) {
	if !cfg.clustered() {
		return nil, nil
	}
	token, err := settings.JoinToken(cfg.JoinTokenFile, os.LookupEnv)
	if err == nil && token != "" {
		err = cluster.CheckToken(token)
	}
	if err != nil {
		return nil, misuse.Of(err)
	}
	of := &cluster.Config{Advertise: cfg.RaftAdvertise, Bootstrap: cfg.Bootstrap, Join: settings.List(cfg.Join), Token: token}
	if of.Listener, err = net.Listen("tcp", cmp.Or(cfg.RaftBind, defaultRaftBind)); err != nil {
		return nil, fmt.Errorf("--raft-bind: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, of.Listener.Close())
		}
	}()
	raft, _, err := cluster.Advertise(cfg.RaftAdvertise, of.Listener.Addr())
	if err != nil {
		return nil, err
	}
	of.HTTP, err = settings.AdvertisedURL(cfg.Advertise, cfg.scheme(), http, raft)
	return of, err
}

// ensureOperator registers the operator's key in the data directory. If the file is missing, ensureOperator
// creates a key, except in a cluster that has an operator's key already. It only logs that a key was revoked
// or has expired.
func (cfg *serverConfig) ensureOperator(ctx context.Context, out io.Writer, r *running, plane *controlplane.Plane) error {
	path := filepath.Join(cfg.DataDir, operatorKeyFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && cfg.clustered() {
		if has, err := plane.HasOperator(ctx); has || err != nil {
			return err
		}
	}
	key, err := allinone.Secret(path, keyring.CloudOperator)
	if err == nil {
		err = plane.EnsureOperator(ctx, key)
	}
	if api.CodeOf(err) == api.Conflict {
		r.log.Warn("the operator's key in the data directory was revoked or has expired", "file", path, "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the operator's key is in %s\n", path)
	return nil
}
