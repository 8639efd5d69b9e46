package dataplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/dataplane/agent"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
)

// HostConfig configures a host of the cloud.
type HostConfig struct {
	DataDir      string
	ControlPlane string // base URLs of its processes, separated by commas
	Credential   string // cv_host_..., with which the host joins
	Address      string // base URL where gateways reach this host
	Version      string
	Certificate  *certificate.Holder // of the host, for the control plane; nil = it has none and speaks plain HTTP
	MaxCells     int                 // namespaces open at once; 0 = host.DefaultMaxCells
	// MaxDiskPercent is the use of the disk from which on the host gets no new namespace; 0 = fleet.DefaultMaxDiskPercent.
	MaxDiskPercent int
	FeedBytes      uint64               // see cell.Config
	ViewLagLimit   time.Duration        // see cell.Config
	SnapshotBytes  int64                // log bytes between snapshots; 0 = the engine's default
	Tracer         trace.TracerProvider // nil = no traces
	Logger         *slog.Logger         // nil = slog.Default()
	HTTP           *http.Client         // for requests to the control plane; nil = a client of its own
}

// segmentBytes is the size of the log segments of a cloud host's cells. It is small because each of the many
// namespaces preallocates a segment and most write little.
const segmentBytes = 1 << 20

// CloudHost is an open host of the cloud. It serves many namespaces to gateways.
type CloudHost struct {
	lock   io.Closer // of the data directory
	agent  *agent.Agent
	host   *host.Host
	server *server.Server
}

// OpenHost opens the host in cfg.DataDir. It returns once each namespace of the host's catalogue is open or
// has failed to open for the first time. It does not wait for the control plane, which the host follows as
// soon as it can reach it.
func OpenHost(ctx context.Context, cfg HostConfig) (_ *CloudHost, err error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	store, err := host.OpenStore(cfg.DataDir, rand.Reader, time.Now().UnixNano())
	if err != nil {
		return nil, err
	}
	n := &CloudHost{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close(context.WithoutCancel(ctx)))
		}
	}()
	// OpenStore comes first, because its file tells the directory of a host from that of a node.
	if n.lock, err = durable.Lock(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", cfg.DataDir, err)
	}
	n.agent, err = agent.Open(agent.Config{
		DataDir:      cfg.DataDir,
		Store:        store,
		ControlPlane: cfg.ControlPlane,
		Credential:   cfg.Credential,
		Address:      cfg.Address,
		Version:      cfg.Version,
		Certificate:  cfg.Certificate,

		MaxDiskPercent: cfg.MaxDiskPercent,

		HTTP:   cfg.HTTP,
		Tracer: cfg.Tracer,
		Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	n.host, err = host.Open(host.Config{
		DataDir:  cfg.DataDir,
		NodeID:   store,
		Adopt:    true,
		MaxCells: cfg.MaxCells,
		Engine:   engine.Tuning{SnapshotBytes: cfg.SnapshotBytes, SegmentBytes: segmentBytes},
		Members:  n.agent.Members,
		Peers:    n.agent.Peers,
		OnChange: n.agent.Notify,
		Receiver: n.agent.Member(),

		FeedBytes: cfg.FeedBytes, ViewLagLimit: cfg.ViewLagLimit,

		Tracer: cfg.Tracer,
		Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	n.server, err = server.New(server.Config{
		Host:          n.host,
		Authenticator: n.agent,
		Version:       cfg.Version,
		Certificate:   cfg.Certificate,
		Tracer:        cfg.Tracer,
		Logger:        cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	if err := n.agent.Start(ctx, n.host); err != nil {
		return nil, err
	}
	return n, nil
}

// Handler returns the handler of the gateways' requests.
func (n *CloudHost) Handler() http.Handler { return n.server }

// OperatorMetrics returns the handler of the process's metrics. They count the work of every tenant, so bind
// the handler to an address that only the operators of the cloud can reach.
func (n *CloudHost) OperatorMetrics() http.Handler { return n.server.OperatorMetrics() }

// Drain prepares a graceful shutdown of the handler's server: see server.Server.Drain.
func (n *CloudHost) Drain() { n.server.Drain() }

// Close stops following the control plane, then flushes and closes every namespace. The handler must not be
// called any more.
func (n *CloudHost) Close(ctx context.Context) error {
	var errs []error
	if n.agent != nil {
		errs = append(errs, n.agent.Close())
	}
	if n.server != nil {
		n.server.Close(ctx)
	}
	if n.host != nil {
		errs = append(errs, n.host.Close(ctx))
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}
