// Package dataplane wires the parts of a data-plane node: a host with its cells and the server in front of
// it. Open opens a bare node, which serves one namespace. OpenHost opens a host of the cloud, which serves
// the namespaces that the control plane places on it. The package contains no rules of its own.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/tenancy"
)

// Config configures a bare node.
type Config struct {
	DataDir string
	NodeID  string
	Version string
	// Dev serves requests without a key to everybody who can reach the node, so the caller must bind the node
	// to loopback. A store that has ever had a key refuses to be opened this way.
	Dev            bool
	Retention      time.Duration // of settled jobs; 0 = as set before, at first job.DefaultRetentionTime
	FeedBytes      uint64        // see cell.Config
	ViewLagLimit   time.Duration // see cell.Config
	MaxPayload     int64         // bytes of a job's payload; 0 = job.DefaultMaxPayload
	ProposeTimeout time.Duration // longest wait for a write's commit; 0 = the server's default
	StreamRate     int           // frames a second of one RPC stream; 0 = server.DefaultStreamRate
	StreamFrames   int           // frames of all streams in progress at once; 0 = server.DefaultStreamFrames
	MaxStreams     int           // streams open at once; 0 = server.DefaultMaxStreams
	// Engine tunes the node's groups. Open sets its Transport from the Cluster.
	Engine engine.Tuning
	// Cluster describes the node's cluster; nil = the node is alone, and no other can reach it. Open fills in
	// the data directory, name, version and logger from this Config.
	Cluster *cluster.Config
	// Shards is the number of shards with which a node that is alone is founded; 0 = one, or as many as it
	// already has.
	Shards int
	// Webhooks configures how webhooks are called. On a node with Dev they may call the node's own machine.
	Webhooks cell.Webhooks
	// Limits bound the rate of requests.
	Limits ratelimit.Limits
	Tracer trace.TracerProvider // nil = no traces
	Logger *slog.Logger         // nil = slog.Default()
}

// Node is an open bare node.
type Node struct {
	cluster *cluster.Cluster // nil = alone
	lock    io.Closer        // lock of the data directory, if the node is alone; a cluster holds its own
	host    *host.Host
	cells   []*cell.Cell
	server  *server.Server
	// FirstKey is the admin key if this start created it, or "".
	FirstKey string
}

// Open opens or creates the node in cfg.DataDir and returns once it accepts writes. A node in a cluster
// accepts writes once every shard has a leader, which may take as long as ctx lasts.
func Open(ctx context.Context, cfg Config) (_ *Node, err error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := engine.CheckSpace(cfg.DataDir); err != nil {
		return nil, err
	}
	if err := durable.MakeDir(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := finished(cfg.DataDir); err != nil {
		return nil, err
	}
	n := &Node{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close(context.WithoutCancel(ctx)))
		}
	}()
	spec := host.Spec{Shards: cfg.Shards}
	if cfg.Cluster != nil {
		if spec, err = n.comeIn(ctx, &cfg); err != nil {
			return nil, err
		}
	} else if err := n.takeAlone(cfg.DataDir); err != nil {
		return nil, err
	}
	cfg.Webhooks.Private = cfg.Webhooks.Private || cfg.Dev
	n.host, err = host.Open(host.Config{
		DataDir:   cfg.DataDir,
		NodeID:    cfg.NodeID,
		Known:     n.known(),
		Engine:    cfg.Engine,
		Retention: cfg.Retention,

		FeedBytes: cfg.FeedBytes, ViewLagLimit: cfg.ViewLagLimit,

		Webhooks: cfg.Webhooks,
		Tracer:   cfg.Tracer,
		Logger:   cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	if err := n.openCells(ctx, spec); err != nil {
		return nil, err
	}
	if n.FirstKey, err = secure(ctx, cfg, n.cells[0]); err != nil {
		return nil, err
	}
	n.server, err = server.New(n.serverConfig(cfg))
	if err != nil {
		return nil, err
	}
	return n, nil
}

// comeIn opens the node's cluster and returns the shards that the node has to open.
func (n *Node) comeIn(ctx context.Context, cfg *Config) (host.Spec, error) {
	of := *cfg.Cluster
	of.DataDir, of.NodeID, of.Version, of.Logger = cfg.DataDir, cfg.NodeID, cfg.Version, cfg.Logger
	of.Level, of.Replicated = op.FeatureLevel, n.level
	var err error
	if of.Shards == 0 && of.Bootstrap {
		// A node that has run alone, or was restored, keeps its number of shards.
		if of.Shards, err = host.Founded(cfg.DataDir, tenancy.Default); err != nil {
			return host.Spec{}, err
		}
	}
	if n.cluster, err = cluster.Open(ctx, of); err != nil {
		return host.Spec{}, err
	}
	cfg.Engine.Transport = n.cluster.Transport()
	return host.Spec{Shards: n.cluster.Shards(), Join: n.cluster.Join()}, nil
}

// takeAlone locks the directory of a node without a cluster before anything in it is opened. So a second node
// gets an error that names the directory, and not the error of a store that it cannot open. takeAlone also
// refuses a directory that the node must not open without its cluster.
func (n *Node) takeAlone(dataDir string) (err error) {
	if err := durable.MakeDir(dataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if n.lock, err = durable.Lock(dataDir); err != nil {
		return fmt.Errorf("data directory %s: %w", dataDir, err)
	}
	return cluster.CheckStandalone(dataDir)
}

// level returns the feature level of the home shard.
func (n *Node) level() uint32 { return n.cells[0].Level() }

// known returns a function that reports the level that the binaries of all members know, or nil if the node
// is alone.
func (n *Node) known() func() (uint32, bool) {
	if n.cluster == nil {
		return nil
	}
	return n.cluster.Level
}

// openCells opens all shards and waits until each has a leader.
func (n *Node) openCells(ctx context.Context, spec host.Spec) (err error) {
	if err := n.host.Add(ctx, tenancy.Default, spec); err != nil {
		return err
	}
	if n.cells, err = n.host.Cells(tenancy.Default); err != nil {
		return err
	}
	if n.cluster != nil {
		groups := make([]cluster.Group, len(n.cells))
		for shard, c := range n.cells {
			groups[shard] = c.Engine()
		}
		if err := n.cluster.Start(groups); err != nil {
			return err
		}
	}
	return n.host.Ready(ctx, tenancy.Default)
}

func (n *Node) serverConfig(cfg Config) server.Config {
	of := server.Config{
		Host:           n.host,
		Namespace:      tenancy.Default,
		Dev:            cfg.Dev,
		Version:        cfg.Version,
		MaxPayload:     cfg.MaxPayload,
		ProposeTimeout: cfg.ProposeTimeout,
		StreamRate:     cfg.StreamRate,
		StreamFrames:   cfg.StreamFrames,
		MaxStreams:     cfg.MaxStreams,
		RaftStore:      string(cfg.Engine.LogKind),
		RaftNoSync:     cfg.Engine.NoSync,
		Limits:         cfg.Limits,
		Tracer:         cfg.Tracer,
		Logger:         cfg.Logger,
	}
	if n.cluster != nil { // a nil *cluster.Cluster is not a nil Cluster
		of.Cluster = n.cluster
	}
	return of
}

// secure ensures that a node without Dev has a key.
func secure(ctx context.Context, cfg Config, c *cell.Cell) (firstKey string, err error) {
	// A member that has just joined does not have the other members' keys yet.
	if err := c.Verify(ctx); err != nil {
		return "", err
	}
	secured := c.State().Head().GetSecured()
	switch {
	case cfg.Dev && secured:
		return "", fmt.Errorf("the store in %s has API keys and never becomes open again: start without --dev, or with another --data-dir", cfg.DataDir)
	case cfg.Dev, secured:
		return "", nil
	}
	return createFirstKey(ctx, cfg.DataDir, c)
}

// Handler returns the handler of the node's HTTP requests.
func (n *Node) Handler() http.Handler { return n.server }

// Cells returns the node's shards, for tests and measurements below the API.
func (n *Node) Cells() []*cell.Cell { return n.cells }

// Drain prepares a graceful shutdown of the handler's server: see server.Server.Drain.
func (n *Node) Drain() { n.server.Drain() }

// Close hands leadership over if another node can take it, then flushes and closes everything. The handler
// must not be called any more.
func (n *Node) Close(ctx context.Context) error {
	var errs []error
	if n.server != nil {
		n.server.Close(ctx)
	}
	if n.host != nil {
		errs = append(errs, n.host.Close(ctx))
	}
	if n.cluster != nil {
		errs = append(errs, n.cluster.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}
