package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/transporttest"
	"github.com/corvo/corvo/tenancy"
)

// peer is a node of a cluster in this process.
type peer struct {
	*node
	id        string
	host      *host.Host
	transport *transport.Transport
	closed    bool
}

// startPeers opens three nodes that are members of every shard of one namespace.
func startPeers(t *testing.T, shards int) []*peer {
	t.Helper()
	return startTracedPeers(t, shards, nil)
}

// startTracedPeers is startPeers with a tracer for some of the nodes.
func startTracedPeers(t *testing.T, shards int, tracers map[string]trace.TracerProvider) []*peer {
	t.Helper()
	names := []string{"a", "b", "c"}
	identities := transporttest.Identities(names...)
	var members []*peer
	var join []entry.Incarnation
	for _, id := range names {
		m := startTracedPeer(t, id, identities[id], host.Spec{Shards: shards, Join: join}, tracers[id])
		if join == nil {
			m.ready()
			for _, c := range m.cells() {
				s, err := c.Status()
				if err != nil {
					t.Fatal(err)
				}
				join = append(join, s.Engine.Incarnation)
			}
		} else {
			for _, c := range members[0].cells() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if err := errors.Join(c.Engine().AddLearner(ctx, id, m.transport.Address()), c.Engine().Promote(ctx, id)); err != nil {
					t.Fatal(err)
				}
				cancel()
			}
			m.ready()
		}
		members = append(members, m)
	}
	return members
}

// startPeer opens a node that joins the shards of spec, or founds them.
func startPeer(t *testing.T, id string, identity transport.Identity, spec host.Spec) *peer {
	t.Helper()
	return startTracedPeer(t, id, identity, spec, nil)
}

// startTracedPeer is startPeer with a tracer; nil makes no spans.
func startTracedPeer(t *testing.T, id string, identity transport.Identity, spec host.Spec, tracer trace.TracerProvider) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	m := &peer{id: id}
	if m.transport, err = transport.Open(transport.Config{NodeID: id, Listener: listener, Identity: identity, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m.host, err = host.Open(host.Config{DataDir: dir, NodeID: id, Logger: logger, Tracer: tracer, Engine: engine.Tuning{
		Transport: m.transport, SegmentBytes: raftlog.MinSegmentBytes,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.host.Add(ctx, tenancy.Default, spec); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Host: m.host, Namespace: tenancy.Default, Version: "test", Dev: true, ProposeTimeout: time.Minute, ReadWait: time.Minute, FreshWait: time.Minute, Tracer: tracer, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(s)
	t.Cleanup(func() { s.Drain(); front.Close() })
	m.node = &node{t: t, server: s, dir: dir, url: front.URL}
	return m
}

// inTheCloud serves the member's namespace as a host of the cloud does, beside the bare node.
func (m *peer) inTheCloud() *tenant {
	m.t.Helper()
	v, directory := &tenant{t: m.t, ns: tenancy.Default}, fleet.NewDirectory()
	v.register(directory, fleet.Doc{Number: 1, Name: "default"})
	var err error
	v.server, err = server.New(server.Config{
		Host: m.host, Authenticator: directoryAuth{directory}, ProposeTimeout: time.Minute, ReadWait: time.Minute, FreshWait: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return v
}

// cells returns the member's cells of all shards.
func (m *peer) cells() []*cell.Cell {
	m.t.Helper()
	cells, err := m.host.Cells(tenancy.Default)
	if err != nil {
		m.t.Fatal(err)
	}
	return cells
}

// ready waits until the member serves all shards.
func (m *peer) ready() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	if err := m.host.Ready(ctx, tenancy.Default); err != nil {
		m.t.Fatal(err)
	}
}

// close closes the member's host and transport. It may be called twice.
func (m *peer) close() {
	if m.closed {
		return
	}
	m.closed = true
	if err := errors.Join(m.host.Close(context.Background()), m.transport.Close()); err != nil {
		m.node.t.Errorf("close %s: %v", m.id, err)
	}
}
