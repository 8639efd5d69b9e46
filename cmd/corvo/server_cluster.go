package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
	files "github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog"
)

// founderName is the default name of the node that founds its cluster.
const founderName = "node-1"

// nodeID returns the node's name: the name in its data directory, else the given name, else a default for the
// first start.
func (c *serverConfig) nodeID() (string, error) {
	fresh := founderName
	if !c.foundsAlone() {
		host, err := os.Hostname()
		if err != nil && c.NodeID == "" {
			return "", fmt.Errorf("--node-id is not given and the host has no name: %w", err)
		}
		fresh = host
	}
	return cluster.NodeID(c.DataDir, c.NodeID, fresh)
}

// tuning returns the settings of the node's groups.
func (c *serverConfig) tuning() engine.Tuning {
	return engine.Tuning{
		LogKind:       raftlog.Kind(c.RaftStore),
		NoSync:        c.Durability == relaxed,
		SnapshotBytes: c.SnapshotThreshold,
		Heartbeat:     c.Heartbeat,
		Election:      c.ElectionTimeout,
		Autopilot:     &engine.Autopilot{},
		Limits: pipeline.Limits{
			BacklogOps: int(c.MaxPending), BacklogBytes: c.MaxPendingBytes,
			EntryOps: int(c.MaxEntryOps), EntryBytes: c.MaxEntryBytes,
		},
	}
}

// membership opens the listener for other nodes and returns how this node joins its cluster, or nil if it has
// no such listener. http is the address for clients and token the given secret. The node itself fills in
// DataDir, NodeID, Version, Level and Logger.
func (c *serverConfig) membership(http net.Addr, token string) (_ *cluster.Config, err error) {
	if c.raftBind() == "" {
		return nil, nil
	}
	of := &cluster.Config{Advertise: c.RaftAdvertise, Bootstrap: c.foundsAlone(), Join: settings.List(c.Join), Shards: int(c.Shards), Token: token}
	if of.Listener, err = net.Listen("tcp", c.raftBind()); err != nil {
		return nil, fmt.Errorf("--raft-bind: %w; choose another, or off", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, of.Listener.Close())
		}
	}()
	raft, _, err := cluster.Advertise(c.RaftAdvertise, of.Listener.Addr())
	if err != nil {
		return nil, err
	}
	if of.HTTP, err = settings.AdvertisedURL(c.Advertise, "http", http, raft); err != nil {
		return nil, err
	}
	of.Find, err = c.find(of.Listener.Addr())
	return of, err
}

// ready reads the secret that nodes share and checks that the data directory is free, before anything is
// opened. It releases the directory's lock again, because the code that opens the directory takes it.
func (c *serverConfig) ready(env func(string) (string, bool)) (token string, err error) {
	if c.raftBind() != "" {
		if token, err = settings.JoinToken(c.JoinTokenFile, env); err != nil {
			return "", misuse.Of(err)
		}
		if err := cluster.CheckToken(token); token != "" && err != nil {
			return "", err
		}
	}
	lock, err := files.Lock(c.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nobody has it yet
		return token, nil
	case err != nil:
		return "", fmt.Errorf("--data-dir %s: %w", c.DataDir, err)
	}
	return token, lock.Close()
}

// find returns how to find the nodes to form a cluster with, or nil if no flag names any.
func (c *serverConfig) find(raft net.Addr) (*cluster.Find, error) {
	find := &cluster.Find{Expect: int(c.Expect)}
	switch {
	case c.Peers != "":
		peers := settings.List(c.Peers)
		find.Addresses = func(context.Context) ([]string, error) { return peers, nil }
	case c.Discover == discoverDNS:
		_, port, err := net.SplitHostPort(raft.String())
		if err != nil {
			return nil, fmt.Errorf("the address of the raft listener: %w", err)
		}
		find.Addresses = func(ctx context.Context) ([]string, error) {
			return discover(ctx, net.DefaultResolver, c.DiscoverDNSName, port)
		}
	default:
		return nil, nil
	}
	return find, nil
}

// resolver makes DNS queries, as *net.Resolver does.
type resolver interface {
	LookupHost(ctx context.Context, host string) (addresses []string, err error)
	LookupAddr(ctx context.Context, address string) (names []string, err error)
}

// discover queries DNS on every call for the addresses of a name; "" = the domain of this host. It gives each
// address this node's own port, because all nodes listen on the same port.
func discover(ctx context.Context, dns resolver, name, port string) ([]string, error) {
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("the host has no name: %w; give --discover-dns-name", err)
		}
		if name, err = domainBehind(ctx, dns, host); err != nil {
			return nil, err
		}
	}
	hosts, err := dns.LookupHost(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("--discover %s: %w", discoverDNS, err)
	}
	var all []string
	for _, host := range hosts {
		all = append(all, net.JoinHostPort(host, port))
	}
	return all, nil
}

// domainBehind returns a host's full name without its first label. In a Kubernetes StatefulSet that is the
// name of its service, which resolves to all its pods.
func domainBehind(ctx context.Context, dns resolver, host string) (string, error) {
	addresses, err := dns.LookupHost(ctx, host)
	if err != nil {
		return "", fmt.Errorf("the host's own name: %w; give --discover-dns-name", err)
	}
	names := []string{host}
	for _, a := range addresses {
		if more, err := dns.LookupAddr(ctx, a); err == nil {
			names = append(names, more...)
		}
	}
	if domain := domainOf(host, names); domain != "" {
		return domain, nil
	}
	return "", fmt.Errorf("the host %q has no domain: give --discover-dns-name", host)
}

// domainOf returns the domain of the first name whose first label equals the host's; "" = none.
func domainOf(host string, names []string) string {
	first, _, _ := strings.Cut(host, ".")
	for _, name := range names {
		if own, domain, _ := strings.Cut(strings.TrimSuffix(name, "."), "."); strings.EqualFold(own, first) && domain != "" {
			return domain
		}
	}
	return ""
}

// relaxedWarning states the risk of --durability relaxed in full.
const relaxedWarning = "--durability relaxed: the log is not synced to disk. A crash of this machine, or a power cut, can lose writes that were acknowledged in the moments before it, and in a cluster a majority of machines that fail together can; a crash of the process alone loses nothing."
