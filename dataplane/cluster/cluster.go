// Package cluster makes a process a member of a bare cluster: it founds one,
// joins one, or forms one with its like; it keeps the secret they share and
// derives from it who may speak to them; and it changes the membership of all
// shards as one. It knows neither jobs nor HTTP. It may import engine and
// engine/transport. Cloud hosts do not use it: there the control plane places.
// DESIGN.md has how a cluster comes about, and why never two.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport"
)

// Config says how a process comes into its cluster. A data directory that is a
// member already stays one: what says how to come in is then only where others
// may be found.
type Config struct {
	DataDir string
	NodeID  string // see NodeID
	// Listener takes the connections of other members; the Cluster closes it.
	// Advertise is where they reach it, with or without a port; "" = as far as can be
	// told: an address of this machine.
	Listener  net.Listener
	Advertise string
	// Token is the secret that all members share: MinToken bytes at least. "" = read
	// from TokenFile, or minted there by who founds.
	Token string
	// HTTP is the URL under which clients reach this node, told to the others.
	HTTP string
	// At most one of these says how a new directory comes in: Bootstrap founds a
	// cluster, Join asks at these addresses to be taken in, and with Find the nodes
	// of a set form a cluster or join the one that some of them are in. None =
	// wait to be invited.
	Bootstrap bool
	Join      []string
	Find      *Find
	// Shards is how many shards a cluster is founded with, 0 = 1; who joins is told.
	Shards int
	// Level is the highest feature level this binary knows, Version its version.
	Level   uint32
	Version string
	// Replicated is the feature level the cluster works at, which who joins must
	// know; asked after Start. nil = 1.
	Replicated func() uint32
	Dial       func(ctx context.Context, address string) (net.Conn, error) // nil = TCP
	Now        func() time.Time                                            // nil = time.Now
	Logger     *slog.Logger                                                // nil = slog.Default()

	open    func(transport.Config) (wire, error) // nil = transport.Open
	persist func(dir string, r *record) error    // nil = writeRecord; tests crash in it
}

// Find is a set of nodes that are to be one cluster.
type Find struct {
	// Expect is how many they are. A new cluster is formed only once all of them
	// have been heard of and none is in one.
	Expect int
	// Addresses lists where they are, this one maybe among them. It is asked again
	// until the cluster is found: DNS fills slowly.
	Addresses func(ctx context.Context) ([]string, error)
}

// MaxShards bounds Config.Shards: each costs every node a log, a store and a view. It
// is what a host opens of one namespace.
const MaxShards = 64

// Group is what the cluster changes of a shard. *engine.Group is one.
type Group interface {
	Members() []engine.Member
	AddLearner(ctx context.Context, id, address string) error
	Remove(ctx context.Context, id string) error
	Transfer(ctx context.Context, to string) error
	LeaderID() string
	Status() (engine.Status, error)
}

// Cluster is this process's membership. Its methods may be called by any goroutine.
type Cluster struct {
	cfg       Config
	secret    secret
	lock      io.Closer
	transport *transport.Transport
	wire      wire // transport, or what tests have instead

	mu     sync.Mutex // guards what follows; held while record is written
	record record
	groups []Group // by shard, nil until Start

	invited  chan string // an address to join at
	progress progress
	foreign  progress
	held     progress
	key      string // of this node's certificates, as the others know it

	heldSince time.Time // see heldBy
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// Open finds out what this process is a member of, which may take as long as ctx
// lasts where others must be found first, and listens for them.
func Open(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	c := &Cluster{cfg: cfg.withDefaults(), invited: make(chan string, 1), stop: func() {}}
	c.progress.log = func(why string) { c.cfg.Logger.Info("not in a cluster yet", "why", why) }
	c.foreign.log = func(why string) { c.cfg.Logger.Error("two clusters have the same join token", "why", why) }
	c.held.log = func(why string) { c.cfg.Logger.Error("the other members do not speak with this node", "why", why) }
	if err := c.cfg.validate(); err != nil {
		return nil, errors.Join(err, closeListener(cfg.Listener))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.settle(); err != nil {
		return nil, err
	}
	if err := c.listen(); err != nil {
		return nil, err
	}
	c.handle()
	c.tellKeys()
	if c.in() {
		if err := c.exchange(ctx, c.is().Members); err != nil {
			return nil, err
		}
		return c, nil
	}
	if err := c.comeIn(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Replicated == nil {
		c.Replicated = func() uint32 { return 1 }
	}
	if c.open == nil {
		c.open = func(of transport.Config) (wire, error) { return transport.Open(of) }
	}
	if c.persist == nil {
		c.persist = writeRecord
	}
	return c
}

func (c *Config) validate() error {
	var wrong []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	ways := 0
	for _, asked := range []bool{c.Bootstrap, len(c.Join) > 0, c.Find != nil} {
		if asked {
			ways++
		}
	}
	require(c.DataDir != "", "DataDir is empty")
	require(c.NodeID != "" && len(c.NodeID) <= engine.MaxGroupName, "NodeID has %d bytes, it must have from 1 to %d", len(c.NodeID), engine.MaxGroupName)
	require(c.Listener != nil, "Listener is nil")
	require(ways <= 1, "a node either founds a cluster, or joins one, or forms one with its like: choose one")
	require(c.Shards >= 0 && c.Shards <= MaxShards, "a cluster has from 1 to %d shards, not %d", MaxShards, c.Shards)
	require(c.Find == nil || c.Find.Expect > 0 && c.Find.Addresses != nil, "Find needs Addresses and to Expect at least one node")
	if len(wrong) > 0 {
		return api.Errorf(api.ValidationError, "cluster configuration: %w", errors.Join(wrong...))
	}
	return nil
}

func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// settle takes the directory, and reads or decides what is in it.
func (c *Cluster) settle() error {
	if err := durable.MakeDir(c.cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	var err error
	if c.lock, err = durable.Lock(c.cfg.DataDir); err != nil {
		return fmt.Errorf("data directory %s: %w", c.cfg.DataDir, err)
	}
	r, err := settleRecord(&c.cfg)
	if err != nil {
		return err
	}
	c.record = *r
	c.secret, err = settleSecret(c.cfg.DataDir, c.cfg.Token, c.cfg.Bootstrap)
	return err
}

// listen opens the transport.
func (c *Cluster) listen() error {
	key, err := c.record.privateKey()
	if err != nil {
		return err
	}
	if c.key, err = keyName(key); err != nil {
		return err
	}
	id, err := newIdentity(c.secret, c.cfg.NodeID, key, c.cfg.Now)
	if err != nil {
		return err
	}
	address, guessed, err := Advertise(c.cfg.Advertise, c.cfg.Listener.Addr())
	if err != nil {
		return err
	}
	if guessed != "" {
		c.cfg.Logger.Warn("other nodes cannot reach this one: "+guessed, "address", address)
	}
	about, err := json.Marshal(info{HTTP: c.cfg.HTTP, Version: c.cfg.Version, Level: c.cfg.Level, Cluster: c.record.Cluster})
	if err != nil {
		return err
	}
	c.wire, err = c.cfg.open(transport.Config{
		NodeID: c.cfg.NodeID, Listener: c.cfg.Listener, Advertise: address, Identity: id, Key: c.key,
		Info: about, Dial: c.cfg.Dial, Now: c.cfg.Now, Logger: c.cfg.Logger,
	})
	if err != nil {
		c.wire = nil
		return err
	}
	c.transport, _ = c.wire.(*transport.Transport)
	return nil
}

// Transport reaches the other members; groups are opened on it.
func (c *Cluster) Transport() *transport.Transport { return c.transport }

// ID is the cluster's name, minted when it was founded.
func (c *Cluster) ID() string { return c.is().Cluster }

// Address is where the other members reach this one.
func (c *Cluster) Address() string { return c.wire.Address() }

// Shards is how many shards the cluster has.
func (c *Cluster) Shards() int { return c.is().Shards }

// Join is, by shard, the incarnation of the groups to join; nil = this process
// has founded the cluster, or found its groups on disk.
func (c *Cluster) Join() []entry.Incarnation {
	r := c.is()
	if r.Phase != joining {
		return nil
	}
	return slices.Clone(r.Groups)
}

// Token is the secret to join by.
func (c *Cluster) Token() string { return c.secret.text }

// Close ends all connections, after the groups were closed.
func (c *Cluster) Close() error {
	c.stop()
	c.running.Wait()
	var errs []error
	if c.wire != nil {
		errs = append(errs, c.wire.Close())
	} else {
		errs = append(errs, closeListener(c.cfg.Listener))
	}
	if c.lock != nil {
		errs = append(errs, c.lock.Close())
	}
	return errors.Join(errs...)
}
