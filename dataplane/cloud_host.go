package dataplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/dataplane/agent"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/transport"
)

// HostConfig configures a host of the cloud.
type HostConfig struct {
	DataDir      string
	ControlPlane string // base URLs of its processes, separated by commas
	Credential   string // cv_host_..., with which the host joins
	Address      string // base URL where gateways reach this host
	Version      string
	Certificate  *certificate.Holder // of the host; nil = it has none and speaks plain HTTP
	// Raft accepts the connections of the Raft members on other hosts, which reach it at the address RaftAddress. It needs
	// a Certificate. OpenHost closes it if it fails, and otherwise Close does. nil = the host has only namespaces with one
	// replica.
	Raft        net.Listener
	RaftAddress string
	MaxCells    int // namespaces open at once; 0 = host.DefaultMaxCells
	// MaxDiskPercent is the use of the disk from which on the host gets no new namespace; 0 = fleet.DefaultMaxDiskPercent.
	MaxDiskPercent int
	FeedBytes      uint64               // see cell.Config
	ViewLagLimit   time.Duration        // see cell.Config
	SnapshotBytes  int64                // log bytes between snapshots; 0 = the engine's default
	Tracer         trace.TracerProvider // nil = no traces
	Logger         *slog.Logger         // nil = slog.Default()
	HTTP           *http.Client         // for requests to the control plane; nil = a client of its own
	Now            func() time.Time     // for service tokens; nil = time.Now
}

// segmentBytes is the size of the log segments of a cloud host's cells. It is small because each of the many
// namespaces preallocates a segment and most write little.
const segmentBytes = 1 << 20

// commitTimeout is the CommitTimeout of a cloud host's groups. With the engine's default, half of the messages of idle
// groups would tell followers of no commit (ADR 0073).
const commitTimeout = 250 * time.Millisecond

// CloudHost is an open host of the cloud. It serves many namespaces to gateways.
type CloudHost struct {
	lock   io.Closer            // of the data directory
	peers  *transport.Transport // to the Raft members on other hosts; nil = none
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
	n := &CloudHost{}
	defer func() {
		if err == nil {
			return
		}
		if cfg.Raft != nil && n.peers == nil {
			err = errors.Join(err, cfg.Raft.Close())
		}
		err = errors.Join(err, n.Close(context.WithoutCancel(ctx)))
	}()
	store, err := host.OpenStore(cfg.DataDir, rand.Reader, time.Now().UnixNano())
	if err != nil {
		return nil, err
	}
	// OpenStore comes first, because its file tells the directory of a host from that of a node.
	if n.lock, err = durable.Lock(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", cfg.DataDir, err)
	}
	if n.peers, err = openPeers(cfg, store); err != nil {
		return nil, err
	}
	n.agent, err = agent.Open(agent.Config{
		DataDir:      cfg.DataDir,
		Store:        store,
		ControlPlane: cfg.ControlPlane,
		Credential:   cfg.Credential,
		Address:      cfg.Address,
		Version:      cfg.Version,
		Certificate:  cfg.Certificate,
		Transport:    n.peers,

		MaxDiskPercent: cfg.MaxDiskPercent,

		HTTP: cfg.HTTP, Now: cfg.Now, Tracer: cfg.Tracer, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	n.host, err = host.Open(host.Config{
		DataDir:  cfg.DataDir,
		NodeID:   store,
		Adopt:    true,
		MaxCells: cfg.MaxCells,
		Engine:   engine.Tuning{Transport: n.peers, CommitTimeout: commitTimeout, SnapshotBytes: cfg.SnapshotBytes, SegmentBytes: segmentBytes},
		Members:  n.agent.Members,
		Peers:    n.agent.Peers,
		OnChange: n.agent.Notify,
		Receiver: n.agent.Member(),

		StartsHeld: n.agent.StartsHeld,

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

// openPeers opens the transport to the Raft members on other hosts, where the node's id is the store's. It returns
// nil if the host has none. The transport gets no key of this node, because a host that joins anew has another one.
func openPeers(cfg HostConfig, store string) (*transport.Transport, error) {
	if cfg.Raft == nil {
		return nil, nil
	}
	if cfg.Certificate == nil {
		return nil, errors.New("a host without a certificate cannot speak Raft with other hosts")
	}
	return transport.Open(transport.Config{
		NodeID: store, Listener: cfg.Raft, Advertise: cfg.RaftAddress, Identity: fleet.NewHostPeer(cfg.Certificate), Logger: cfg.Logger,
	})
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
	if n.peers != nil { // after the groups, which hand over their leadership
		errs = append(errs, n.peers.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}
