// Package transport carries the messages between the members of Raft groups: one listener and one connection
// in each direction between two processes, for all groups they share, under mutual TLS. A snapshot has a
// connection of its own. The package owns the protocol, decides which nodes may send, and knows the addresses
// of peers and the offsets of their clocks. It does not know the content that a group replicates. It may
// import hashicorp/raft, api, api/text, engine/entry and engine/image.
package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

// Config holds the parameters of Open.
type Config struct {
	// NodeID is this process's name, of 1 to 255 bytes, the same in all its groups. The certificates of
	// Identity contain it.
	NodeID string
	// Listener accepts the connections of peers. The Transport closes it.
	Listener net.Listener
	// Advertise is the address under which peers reach Listener; "" = the Listener's own.
	Advertise string
	// Identity proves this node's identity and checks the peers' identities.
	Identity Identity
	// Key is the key of this node's certificates (see KeyOf). With "", the Transport cannot tell another
	// process with this node's ID from this process reached by another address.
	Key string
	// Info is sent to every peer at the start of a connection. It is opaque to the Transport (see
	// PeerStatus.Info). At most MaxInfo bytes.
	Info []byte
	// Dial opens a connection to an address; nil = TCP. Tests use memnet.
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = slog.Default()
}

// Identity is this process's side of mutual TLS. There is no mode without encryption.
type Identity interface {
	// Server returns the configuration for accepted connections. It must request a certificate and verify it.
	Server() *tls.Config
	// Client returns the configuration for connections to a peer. With a peerID, the peer's certificate must
	// be that node's; with "", any node's that the Identity trusts.
	Client(peerID string) *tls.Config
	// NodeID returns the ID of the node in a certificate that one of the configurations has verified; "" = it names
	// none.
	NodeID(*x509.Certificate) string
}

// Peer identifies a node. An empty ID means the node that answers at Address. An empty Address means the
// node's last known address.
type Peer struct {
	ID      string
	Address string
	Key     string // of a caller: the key of its certificate (see KeyOf)
}

// These constants bound messages, connections and times.
const (
	// MaxInfo bounds Config.Info, in bytes.
	MaxInfo = 4 << 10
	// MaxCall bounds a call's request and its answer, in bytes: the largest op and its framing.
	MaxCall = 24 << 20
	// RPCTimeout is how long Raft waits for the answer to a short message. A longer message has more time
	// (see minRate).
	RPCTimeout = time.Second
	// pipelineWindow bounds a pipeline's requests without an answer. One more may be sent, because a pipeline
	// sends a request before it waits for room. With a larger window, raft sends entries one by one that
	// could have been sent, and fsynced, together.
	pipelineWindow = 4
	// maxGroups bounds the group numbers of a connection. A peer that opens more groups during a connection's
	// life starts another connection.
	maxGroups = 1 << 16
	// maxHandshakes bounds the connections whose peer is not identified yet.
	maxHandshakes = 256
	// handshakeTimeout bounds the duration of a handshake.
	handshakeTimeout = 5 * time.Second
	// maxUnsent bounds the bytes that the kernel has accepted and not sent, where the system supports it.
	maxUnsent = 128 << 10
	// maxIncoming bounds a peer's connections for messages. The peer needs one, and another while this node
	// has not noticed that the first is dead. If there are more, the oldest is closed.
	maxIncoming = 4
)

// Transport is this process's end of the connections to all its peers. Its methods may be called from any
// goroutine.
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
	dialing  map[string]*dialAttempt // attempts at addresses whose node is not known yet
	sockets  map[*socket]struct{}
	groups   map[string]*Group
	handlers handlers
}

// Open starts to listen. A message for a group that is not open is answered with an error, which the sender
// treats as an unreachable member. If Open fails, the Listener stays open.
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
		peers: map[string]*peer{}, dialing: map[string]*dialAttempt{},
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

// ID returns this node's name.
func (t *Transport) ID() string { return t.id }

// Address returns the address that this node advertises.
func (t *Transport) Address() string { return t.address }

// Handle sets the handler of the calls of kind k that go to this process and not to a group. It does not
// answer impostors (see Know).
func (t *Transport) Handle(k Kind, h Handler) { t.handlers.set(k, h) }

// HandleAny is like Handle, but the handler also answers impostors (see Know).
func (t *Transport) HandleAny(k Kind, h Handler) { t.handlers.setAny(k, h) }

// Impostor reports whether a caller has another key than the one known for its ID.
func (t *Transport) Impostor(from Peer) bool { return t.impostor(from.ID, from.Key) }

// Group opens this process's end of a group, which can be open only once. The name has 1 to 255 bytes.
// Messages carry the group's name and incarnation. A message for another incarnation is refused before it is
// decoded.
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

// ErrClosed is returned by a Transport or Group that is closed.
var ErrClosed = errors.New("the transport is closed")

// Close ends all connections and stops listening. Groups should be closed first.
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
		_ = s.Close() // the requests on it are answered with an error
	}
	for _, g := range groups {
		_ = g.Close() // never fails
	}
	t.wg.Wait()
	return err
}

// track wraps a network connection and registers it, so that Close ends it.
func (t *Transport) track(c net.Conn) (*socket, error) {
	if tcp, ok := c.(*net.TCPConn); ok {
		if err := boundUnsent(tcp); err != nil {
			t.log.Warn("the kernel's send queue cannot be bounded, so heartbeats may wait behind data", "error", err)
		}
	}
	s := newSocket(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = c.Close() // no other code knows of it
		return nil, ErrClosed
	}
	t.sockets[s] = struct{}{}
	return s, nil
}

func (t *Transport) untrack(s *socket) {
	t.mu.Lock()
	delete(t.sockets, s)
	t.mu.Unlock()
	_ = s.Close() // the connection is no longer used
}
