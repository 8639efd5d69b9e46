// Package dataplane wires the parts of a data-plane node: a host with its cells
// and the server in front of it. Open gives a bare node that serves one namespace,
// OpenHost a host of the cloud that serves those it is told to; what they serve is
// decided further down.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/engine/durable"
	"github.com/corvo/corvo/tenancy"
)

// Config says what a bare node needs to know.
type Config struct {
	DataDir string
	NodeID  string
	Version string
	// Dev opens the node to everybody who can reach it. The caller binds it to
	// loopback; a store that has ever had a key refuses to be opened this way.
	Dev            bool
	MaxPayload     int64                // bytes of a job's payload; 0 = job.MaxPayload
	SnapshotBytes  int64                // log bytes between snapshots; 0 = the engine's default
	ProposeTimeout time.Duration        // longest wait for a write's commit; 0 = the server's default
	Tracer         trace.TracerProvider // nil = no traces
	Logger         *slog.Logger
}

// Node is an open bare node.
type Node struct {
	host   *host.Host
	server *server.Server
	// FirstKey is the admin key, on the start that created it; empty otherwise.
	FirstKey string
}

// Open opens or creates the node in cfg.DataDir and returns once it takes
// writes.
func Open(ctx context.Context, cfg Config) (_ *Node, err error) {
	if err := durable.MakeDir(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	h, err := host.Open(host.Config{
		DataDir:       cfg.DataDir,
		NodeID:        cfg.NodeID,
		SnapshotBytes: cfg.SnapshotBytes,
		Tracer:        cfg.Tracer,
		Logger:        cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close(ctx))
		}
	}()
	if err := h.Add(ctx, tenancy.Default); err != nil {
		return nil, err
	}
	c, err := h.Cell(tenancy.Default)
	if err != nil {
		return nil, err
	}
	node := &Node{host: h}
	if node.FirstKey, err = secure(ctx, cfg, c); err != nil {
		return nil, err
	}
	node.server, err = server.New(server.Config{
		Host:           h,
		Namespace:      tenancy.Default,
		Dev:            cfg.Dev,
		Version:        cfg.Version,
		MaxPayload:     cfg.MaxPayload,
		ProposeTimeout: cfg.ProposeTimeout,
		Tracer:         cfg.Tracer,
		Logger:         cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	return node, nil
}

// secure sees to it that a node that is not open has a key to get in by.
func secure(ctx context.Context, cfg Config, c *cell.Cell) (firstKey string, err error) {
	secured := c.State().Head().GetSecured()
	switch {
	case cfg.Dev && secured:
		return "", fmt.Errorf("the store in %s has API keys and never becomes open again: start without --dev, or with another --data-dir", cfg.DataDir)
	case cfg.Dev, secured:
		return "", nil
	}
	return createFirstKey(ctx, cfg.DataDir, c)
}

// Handler serves the node's HTTP.
func (n *Node) Handler() http.Handler { return n.server }

// Drain ends the waiting polls, so that a graceful shutdown need not sit them
// out. Other requests are not affected.
func (n *Node) Drain() { n.server.Drain() }

// Close flushes and closes everything. The handler must not be called any more.
func (n *Node) Close(ctx context.Context) error { return n.host.Close(ctx) }
