// Package transport carries what the members of Raft groups say to each other:
// one listener and one connection in each direction between two processes, for
// all groups they share, under mutual TLS. A snapshot has a connection of its own
// while it lasts. It owns the wire, who may speak on it, where peers are, and how
// far their clocks are from ours. It does not know what a group replicates. It
// may import hashicorp/raft, api, engine/entry and engine/image.
package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/engine/entry"
)

// Config is what a Transport is made of.
type Config struct {
	// NodeID is this process's name, the same in all its groups. The certificates of
	// Identity carry it.
	NodeID string
	// Listener takes the connections of peers; the Transport closes it.
	Listener net.Listener
	// Advertise is the address under which peers reach Listener; "" = its own.
	Advertise string
	// Identity proves who we are and checks who they are.
	Identity Identity
	// Key is the key of our own certificates, see KeyOf; "" = not told, and then
	// another process of our ID is not told from this one by another address.
	Key string
	// Info is told to every peer at the start of a connection: opaque here, see
	// PeerStatus.Info. At most MaxInfo bytes.
	Info []byte
	// Dial opens a connection to an address; nil = TCP. Tests have a network of
	// their own (memnet).
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = slog.Default()
}

// Identity is this process's side of mutual TLS. The common name of a
// certificate's subject is the node's ID. There is no plain text mode.
type Identity interface {
	// Server is how connections are taken: it must ask for a certificate and verify
	// it.
	Server() *tls.Config
	// Client is how a peer is called. With a peerID the peer's certificate must be
	// that node's; "" = any node's that the Identity trusts.
	Client(peerID string) *tls.Config
}

// Peer is where a node is. An empty ID is whoever answers at the Address; an
// empty Address is the one the node was last known under.
type Peer struct {
	ID      string
	Address string
	Key     string // of a caller: the key of its certificate, see KeyOf
}

// Bounds.
const (
	// MaxInfo bounds Config.Info, in bytes.
	MaxInfo = 4 << 10
	// MaxCall bounds a call's request and its answer, in bytes: the largest op and
	// what goes around it.
	MaxCall = 24 << 20
	// RPCTimeout is how long Raft waits for an answer to a short message; a long one
	// has more: see slowest.
	RPCTimeout = time.Second
	// pipelineWindow bounds a pipeline's messages without an answer. With more, raft
	// sends entries one by one where they could have gone, and been fsynced, together.
	pipelineWindow = 4
	// maxGroups bounds the groups that a connection's numbers stand for. A peer that
	// has opened more in a connection's life starts another.
	maxGroups = 1 << 16
	// maxHandshakes bounds the connections whose peer is not known yet.
	maxHandshakes = 256
	// handshakeTimeout ends those that do not get on.
	handshakeTimeout = 5 * time.Second
	// maxUnsent bounds the bytes that the kernel has taken and not sent, where it can.
	maxUnsent = 128 << 10
	// maxIncoming bounds a peer's connections for messages; it needs one, and another
	// while it has not noticed that the first is dead. The oldest goes.
	maxIncoming = 4
)

// Transport is this process's end of the connections to all its peers. Its
// methods may be called by any goroutine.
type Transport struct {
	id, address string
	key         string // Config.Key
	info        []byte
	identity    Identity
	listener    net.Listener
	dial        func(ctx context.Context, address string) (net.Conn, error)
	now         func() time.Time
	log         *slog.Logger

	ctx    context.Context // ends with the Transport
	cancel context.CancelFunc
	wg     sync.WaitGroup // all goroutines

	mu       sync.Mutex // taken before a conn's
	closed   bool
	peers    map[string]*peer
	meetings map[string]*flight // calls of addresses whose node is not known yet
	sockets  map[*socket]struct{}
	groups   map[string]*Group
	handlers handlers
}

// Open starts to listen. What arrives for a group that is not open is answered
// with an error that the sender takes for an unreachable member.
func Open(c Config) (*Transport, error) {
	switch {
	case c.NodeID == "" || len(c.NodeID) > maxName:
		return nil, fmt.Errorf("transport: a node's ID has 1 to %d bytes, not %d", maxName, len(c.NodeID))
	case c.Listener == nil || c.Identity == nil:
		return nil, errors.New("transport: a Listener and an Identity are needed")
	case len(c.Info) > MaxInfo:
		return nil, fmt.Errorf("transport: Info has at most %d bytes, not %d", MaxInfo, len(c.Info))
	case !verifies(c.Identity.Server()):
		return nil, errors.New("transport: the Identity must ask callers for a certificate and verify it")
	}
	t := &Transport{
		id: c.NodeID, address: c.Advertise, key: c.Key, info: c.Info, identity: c.Identity,
		listener: c.Listener, dial: c.Dial, now: c.Now, log: c.Logger,
		peers: map[string]*peer{}, meetings: map[string]*flight{},
		sockets: map[*socket]struct{}{}, groups: map[string]*Group{},
	}
	if t.address == "" {
		t.address = c.Listener.Addr().String()
	}
	if len(t.address) > maxName {
		return nil, fmt.Errorf("transport: an address has at most %d bytes, not %d", maxName, len(t.address))
	}
	if t.dial == nil {
		t.dial = dialTCP
	}
	if t.now == nil {
		t.now = time.Now
	}
	if t.log == nil {
		t.log = slog.Default()
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.wg.Go(t.accept)
	t.wg.Go(t.watch)
	return t, nil
}

func verifies(c *tls.Config) bool {
	checked := c.VerifyConnection != nil || c.VerifyPeerCertificate != nil
	return c.ClientAuth == tls.RequireAndVerifyClientCert || c.ClientAuth == tls.RequireAnyClientCert && checked
}

// ID is this node's name.
func (t *Transport) ID() string { return t.id }

// Address is the one that peers are told.
func (t *Transport) Address() string { return t.address }

// Handle answers calls of a kind that are made to the process.
func (t *Transport) Handle(k Kind, h Handler) { t.handlers.set(k, h) }

// HandleAny answers calls of a kind also to strangers: see Know.
func (t *Transport) HandleAny(k Kind, h Handler) { t.handlers.setAny(k, h) }

// Stranger says whether a caller is another process than the node of its ID is
// known to be.
func (t *Transport) Stranger(from Peer) bool { return t.stranger(from.ID, from.Key) }

// Group opens this process's end of a group. Messages carry the group's name and
// its incarnation; one for another incarnation is refused before anything of it
// is looked at.
func (t *Transport) Group(name string, incarnation entry.Incarnation) (*Group, error) {
	if name == "" || len(name) > maxName {
		return nil, fmt.Errorf("transport: a group's name has 1 to %d bytes, not %d", maxName, len(name))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, ErrClosed
	case t.groups[name] != nil:
		return nil, fmt.Errorf("transport: group %q is open already", name)
	}
	g := newGroup(t, name, incarnation)
	t.groups[name] = g
	return g, nil
}

func (t *Transport) group(name string) *Group {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.groups[name]
}

// ErrClosed is answered by a Transport or Group that is closed.
var ErrClosed = errors.New("the transport is closed")

// Close ends all connections and stops listening. Groups are closed before.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.cancel()
	err := t.listener.Close()
	sockets := slices.Collect(maps.Keys(t.sockets))
	groups := slices.Collect(maps.Values(t.groups))
	t.mu.Unlock()
	for _, s := range sockets {
		_ = s.Close() // what is lost with it is answered with an error
	}
	for _, g := range groups {
		_ = g.Close() // never fails
	}
	t.wg.Wait()
	return err
}

// own takes charge of a network connection: Close ends it.
func (t *Transport) own(c net.Conn) (*socket, error) {
	if tcp, ok := c.(*net.TCPConn); ok {
		if err := boundUnsent(tcp); err != nil {
			t.log.Warn("heartbeats may wait behind data: the kernel's queue cannot be bounded", "error", err)
		}
	}
	s := newSocket(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = c.Close() // nobody knows of it
		return nil, ErrClosed
	}
	t.sockets[s] = struct{}{}
	return s, nil
}

func (t *Transport) disown(s *socket) {
	t.mu.Lock()
	delete(t.sockets, s)
	t.mu.Unlock()
	_ = s.Close() // it is of no use any more
}
