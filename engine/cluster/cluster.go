// Package cluster makes a process a member of a cluster whose members share a secret: a bare cluster of
// nodes, or the processes of a control plane. It bootstraps, joins or forms a cluster; keeps the shared
// secret and derives from it which processes are trusted; and changes the membership of all groups of the
// cluster, its shards, together. It knows neither jobs nor HTTP. It may import api, durable, engine,
// engine/entry and engine/transport. Cloud hosts do not use it, because the control plane places namespaces
// there. DESIGN.md describes how nodes form a cluster, and why they never form two.
package cluster

import (
	"cmp"
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

// Config says how a process enters its cluster. DataDir, NodeID and Listener are required. A data directory
// that is already a member stays one; Join and Find then only list addresses of other members.
type Config struct {
	DataDir string
	// Data is the name of the directory below DataDir that holds the groups; "" = "ns". If it exists before
	// the first start as part of a cluster, the process has worked alone and can found a cluster but not join
	// one.
	Data   string
	NodeID string // 1 to engine.MaxGroupName bytes; see the function NodeID
	// Listener accepts the connections of other members; the Cluster closes it. Advertise is the address that
	// they use for this process, with or without a port; "" = an address of this machine (see the function
	// Advertise).
	Listener  net.Listener
	Advertise string
	// Token is the secret that all members share, of MinToken to MaxToken bytes. "" = read it from TokenFile,
	// or with Bootstrap create it there. A Token that differs from the file's is refused.
	Token string
	// HTTP is the URL under which clients reach this node. The node tells it to the other members.
	HTTP string
	// At most one of Bootstrap, Join and Find is set, and says how a new directory enters a cluster.
	// Bootstrap creates a cluster. Join asks at these addresses to be added. With Find, the nodes of a set
	// form a cluster or, if one of them is in a cluster already, join that. If none is set, the process waits
	// for an invitation.
	Bootstrap bool
	Join      []string
	Find      *Find
	// Shards is the number of shards of a new cluster, 0 = 1. A node that joins is told the number, and is
	// refused if it has set another.
	Shards int
	// Level is the highest feature level that this binary supports, Version its version.
	Level   uint32
	Version string
	// Replicated returns the feature level of the cluster, which a joining node must support. It is called
	// after Start. nil = 1.
	Replicated func() uint32
	Dial       func(ctx context.Context, address string) (net.Conn, error) // nil = TCP
	Now        func() time.Time                                            // nil = time.Now
	Logger     *slog.Logger                                                // nil = slog.Default()

	open    func(transport.Config) (wire, error) // nil = transport.Open
	persist func(dir string, r *record) error    // nil = writeRecord; tests crash in it
}

// Find describes a set of nodes that form one cluster.
type Find struct {
	// Expect is the number of nodes, this one included. A new cluster is formed only after all of them have
	// answered and none is in a cluster.
	Expect int
	// Addresses returns the nodes' addresses, perhaps with this node's. It is called repeatedly, because DNS
	// entries appear one by one. A member calls it too, because another member may have a new address after a
	// restart.
	Addresses func(ctx context.Context) ([]string, error)
}

// MaxShards bounds Config.Shards, because each shard costs every node a log, a store and a view. A host opens
// no more for one namespace.
const MaxShards = 64

// Group is the interface of a shard to the cluster. *engine.Group implements it.
type Group interface {
	Members() []engine.Member
	AddLearner(ctx context.Context, id, address string) error
	Remove(ctx context.Context, id string) error
	Transfer(ctx context.Context, to string) error
	LeaderID() string
	Status() (engine.Status, error)
}

// Cluster is this process's membership in a cluster. Its methods may be called from any goroutine.
type Cluster struct {
	cfg       Config
	secret    secret
	lock      io.Closer
	transport *transport.Transport
	wire      wire // transport, or a test's replacement

	mu     sync.Mutex // guards record and groups; held while record is written
	record record
	groups []Group // by shard; nil until Start

	invited    chan string // an address at which to join
	joinLog    conditionLog
	foreignLog conditionLog
	idTakenLog conditionLog
	key        string // the name of this node's key, as other members see it (see keyName)

	idTakenSince time.Time // see idTaken
	stop         context.CancelFunc
	running      sync.WaitGroup
}

// Open makes this process a member of its cluster and listens for other members. If its directory is in no
// cluster yet, Open waits until it is in one, and returns LEADER_UNAVAILABLE if ctx ends first. Open fails
// earlier if all addresses in Join refuse for good, or, with CONFLICT, if another process keeps this node's
// ID. On an error it closes the Listener.
func Open(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	c := &Cluster{cfg: cfg.withDefaults(), invited: make(chan string, 1), stop: func() {}}
	c.joinLog.log = func(why string) { c.cfg.Logger.Info("the node is not in a cluster yet", "reason", why) }
	c.foreignLog.log = func(why string) { c.cfg.Logger.Error("two clusters have the same join token", "reason", why) }
	c.idTakenLog.log = func(why string) {
		c.cfg.Logger.Error("the other members refuse connections with this node", "reason", why)
	}
	if err := c.cfg.validate(); err != nil {
		return nil, errors.Join(err, closeListener(cfg.Listener))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.openDirectory(); err != nil {
		return nil, err
	}
	if err := c.listen(); err != nil {
		return nil, err
	}
	c.handle()
	c.publishKeys()
	if c.inCluster() {
		if err := c.exchangeKeys(ctx, c.current().Members); err != nil {
			return nil, err
		}
		return c, nil
	}
	if err := c.joinCluster(ctx); err != nil {
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
	c.Data = cmp.Or(c.Data, shardsName)
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

// openDirectory locks the data directory and loads or creates the record and the secret in it.
func (c *Cluster) openDirectory() error {
	if err := durable.MakeDir(c.cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	var err error
	if c.lock, err = durable.Lock(c.cfg.DataDir); err != nil {
		return fmt.Errorf("data directory %s: %w", c.cfg.DataDir, err)
	}
	r, err := loadRecord(&c.cfg)
	if err != nil {
		return err
	}
	c.record = *r
	c.secret, err = loadSecret(c.cfg.DataDir, c.cfg.Token, c.cfg.Bootstrap)
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

// Transport returns the transport to the other members. Groups are opened on it.
func (c *Cluster) Transport() *transport.Transport { return c.transport }

// ID returns the cluster's ID, drawn when the cluster was created.
func (c *Cluster) ID() string { return c.current().Cluster }

// Address returns the address under which other members reach this one.
func (c *Cluster) Address() string { return c.wire.Address() }

// Shards returns the number of shards of the cluster.
func (c *Cluster) Shards() int { return c.current().Shards }

// Join returns the incarnations of the groups to join, by shard. It returns nil if this process has created
// the cluster, or has its groups on disk.
func (c *Cluster) Join() []entry.Incarnation {
	r := c.current()
	if r.Phase != joining {
		return nil
	}
	return slices.Clone(r.Groups)
}

// Token returns the secret with which other nodes join.
func (c *Cluster) Token() string { return c.secret.text }

// Close ends all connections and unlocks the data directory. The groups must be closed before.
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
