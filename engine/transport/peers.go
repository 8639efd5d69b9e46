package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
)

// These constants set how an unreachable peer is dialled. All callers share one attempt. The pause between
// two attempts is at most maxBackoff and its jitter, so that a returning peer is found soon and an absent one
// is not dialled in a tight loop.
const (
	dialTimeout = 2 * time.Second // for one address, until the handshake is done
	minBackoff  = 20 * time.Millisecond
	maxBackoff  = 150 * time.Millisecond // plus or minus a quarter
)

// peer holds everything known about a node. The Transport's mutex guards it.
type peer struct {
	id       string
	address  string // from its hello or from Learn
	knownKey string // the key set by Know; "" accepts any
	infoKey  string // the key of the process that sent info
	warned   string // the key of the impostor that was logged last
	info     []byte
	out      *conn        // the connection for requests to the peer
	in       []*conn      // the connections for its requests, oldest first
	dial     *dialAttempt // an attempt to open out
	failures int
	retryAt  time.Time // before it, refused is returned
	refused  error
	lastSeen time.Time
	clock    clock

	sending   chan struct{} // holds a token for each snapshot that is being sent to the peer
	receiving int           // number of its connections for snapshots
}

// dialAttempt is an attempt to connect to a peer.
type dialAttempt struct {
	done chan struct{} // closed once the other fields are set
	conn *conn
	err  error
}

// peer returns the peer with an ID, and creates it if necessary. The caller holds t.mu.
func (t *Transport) peer(id string) *peer {
	p := t.peers[id]
	if p == nil {
		p = &peer{id: id, sending: make(chan struct{}, maxSending)}
		t.peers[id] = p
	}
	return p
}

// Learn sets a node's address, which is preferred to the address in raft's configuration, and ends a
// connection that this node opened to another address. It ignores an ID or address that is empty or too long.
// The Transport itself learns the addresses of nodes that connect.
func (t *Transport) Learn(id, address string) {
	if id == "" || address == "" || len(id) > maxName || len(address) > maxName {
		return
	}
	t.mu.Lock()
	moved := t.learn(t.peer(id), address)
	t.mu.Unlock()
	moved.fail(errMoved)
}

var errMoved = errors.New("the peer has moved to another address")

// learn sets an address. It returns the connection to another address, which the caller must end, or nil. The
// caller holds t.mu.
func (t *Transport) learn(p *peer, address string) (moved *conn) {
	if p.address == address {
		return nil
	}
	p.address, p.failures, p.retryAt = address, 0, time.Time{}
	if p.out != nil && p.out.address != address {
		moved, p.out = p.out, nil
	}
	return moved
}

// AddressOf returns a node's last known address; "" = unknown.
func (t *Transport) AddressOf(id string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		return p.address
	}
	return ""
}

// Peers returns the status of all peers, sorted by ID.
func (t *Transport) Peers() []PeerStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]PeerStatus, 0, len(t.peers))
	for _, p := range t.peers {
		all = append(all, p.status())
	}
	slices.SortFunc(all, func(a, b PeerStatus) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func (p *peer) status() PeerStatus {
	s := PeerStatus{Peer: Peer{ID: p.id, Address: p.address}, Info: p.info, LastSeen: p.lastSeen}
	if p.out != nil {
		s.Key = p.out.key // of the process at the dialled address
	}
	for _, c := range p.connections() {
		if c.impostor.Load() {
			continue
		}
		s.Connected = true
		if at := c.lastSeenAt(); at.After(s.LastSeen) {
			s.LastSeen = at
		}
	}
	s.RTT, s.Offset, s.Measured = p.clock.newest, p.clock.offset(), p.clock.measured() && s.Connected
	return s
}

func (p *peer) connections() []*conn {
	if p.out == nil {
		return p.in
	}
	return append([]*conn{p.out}, p.in...)
}

// addIncoming adds a connection that the peer opened, and learns from the peer's hello unless the peer is an
// impostor. It returns false if t is closed.
func (t *Transport) addIncoming(h hello, c *conn) bool {
	var old []*conn
	t.mu.Lock()
	closed := t.closed
	if !closed {
		p := t.peer(h.node)
		c.hello = h
		if impostor := p.otherKey(c.key); impostor {
			c.impostor.Store(true)
			t.warn(p, c.key, h.address)
		} else {
			old = append(old, t.learnFrom(p, h, c.key))
		}
		old = append(old, p.addIn(c))
	}
	t.mu.Unlock()
	for _, o := range old {
		o.fail(errMoved)
	}
	return !closed
}

// lost removes a connection that has ended.
func (t *Transport) lost(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[c.peer]
	if p == nil {
		return
	}
	if p.out == c {
		p.out = nil
	}
	p.in = slices.DeleteFunc(p.in, func(o *conn) bool { return o == c })
	if at := c.lastSeenAt(); at.After(p.lastSeen) && !c.impostor.Load() {
		p.lastSeen = at
	}
	if p.out == nil && len(p.in) == 0 {
		p.clock = clock{} // the peer's clock may be set while nobody measures it
	}
}

// connection returns the connection to a peer, and opens one if necessary.
func (t *Transport) connection(ctx context.Context, to Peer) (*conn, error) {
	if to.ID == t.id {
		return nil, fmt.Errorf("node %q does not call itself", t.id)
	}
	t.mu.Lock()
	f, c, err := t.connOrDial(to)
	t.mu.Unlock()
	if c != nil || err != nil {
		return c, err
	}
	select {
	case <-f.done:
		return f.conn, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect: %w", ctx.Err())
	}
}

// connOrDial returns the connection to a peer, or else the attempt to open one, which connOrDial starts if
// none runs. During the pause after a failed attempt, it returns that attempt's error. The caller holds t.mu.
func (t *Transport) connOrDial(to Peer) (*dialAttempt, *conn, error) {
	if t.closed {
		return nil, nil, ErrClosed
	}
	if to.ID == "" {
		return t.connOrDialAddress(to.Address)
	}
	p := t.peer(to.ID)
	switch {
	case p.out != nil:
		return nil, p.out, nil
	case p.dial != nil:
		return p.dial, nil, nil
	case time.Now().Before(p.retryAt):
		return nil, nil, p.refused
	}
	var addresses []string
	for _, a := range []string{p.address, to.Address} {
		if a != "" && !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	if len(addresses) == 0 {
		return nil, nil, fmt.Errorf("the address of node %q is not known", to.ID)
	}
	f := &dialAttempt{done: make(chan struct{})}
	p.dial = f
	t.wg.Go(func() { t.dialPeer(p, f, addresses) })
	return f, nil, nil
}

// connOrDialAddress is connOrDial for an address without a node ID. The caller holds t.mu.
func (t *Transport) connOrDialAddress(address string) (*dialAttempt, *conn, error) {
	if address == "" {
		return nil, nil, errors.New("a peer without ID and address cannot be called")
	}
	for _, p := range t.peers {
		for _, c := range p.connections() {
			if c.calling && c.address == address {
				return nil, c, nil
			}
		}
	}
	if f := t.dialing[address]; f != nil {
		return f, nil, nil
	}
	f := &dialAttempt{done: make(chan struct{})}
	t.dialing[address] = f
	t.wg.Go(func() {
		c, err := t.connect("", address)
		t.mu.Lock()
		delete(t.dialing, address)
		t.mu.Unlock()
		t.finish(f, c, err)
	})
	return f, nil, nil
}

// dialPeer tries a peer's addresses in order.
func (t *Transport) dialPeer(p *peer, f *dialAttempt, addresses []string) {
	var c *conn
	var errs []error
	for _, address := range addresses {
		var err error
		if c, err = t.connect(p.id, address); err == nil {
			break
		}
		errs = append(errs, err)
	}
	t.mu.Lock()
	p.dial = nil
	if c != nil {
		p.failures, p.retryAt = 0, time.Time{}
		errs = nil
	} else {
		p.refused = errors.Join(errs...)
		p.retryAt = time.Now().Add(backoff(p.failures))
		p.failures++
	}
	t.mu.Unlock()
	t.finish(f, c, errors.Join(errs...))
}

// backoff returns the pause after the given number of earlier failures.
func backoff(failures int) time.Duration {
	d := min(minBackoff<<min(failures, 8), maxBackoff)
	return d*3/4 + rand.N(d/2)
}

// finish delivers the result of an attempt.
func (t *Transport) finish(f *dialAttempt, c *conn, err error) {
	f.conn, f.err = c, err
	close(f.done)
}

// connect opens a connection for messages and serves it. If the peer has one already, connect closes the new
// one and returns the old one.
func (t *Transport) connect(id, address string) (*conn, error) {
	l, h, err := t.openLink(id, address, forMessages)
	if err != nil {
		return nil, err
	}
	c := newConn(t, l, h.node, true)
	c.address, c.key = address, l.key
	t.mu.Lock()
	p := t.peer(h.node)
	if p.otherKey(c.key) {
		old, err := t.addImpostor(p, c, id)
		t.mu.Unlock()
		old.fail(errMoved)
		if err != nil {
			t.untrack(l.socket)
			return nil, err
		}
		t.serveConn(c, l)
		return c, nil
	}
	p.info, p.infoKey = h.info, c.key
	if h.address != "" { // the advertised address is newer than the dialled one
		p.address, c.address = h.address, h.address
	}
	other := p.out
	closed := t.closed
	if other == nil && !closed {
		p.out = c
	}
	t.mu.Unlock()
	if closed || other != nil {
		t.untrack(l.socket)
		if closed {
			return nil, ErrClosed
		}
		return other, nil
	}
	t.serveConn(c, l)
	return c, nil
}

// serveConn serves a connection that this node opened.
func (t *Transport) serveConn(c *conn, l *link) {
	t.wg.Go(func() {
		defer t.untrack(l.socket)
		c.serve()
	})
}

// openLink opens a connection and performs the handshake on the caller's side.
func (t *Transport) openLink(id, address string, p purpose) (*link, hello, error) {
	ctx, cancel := context.WithTimeout(t.ctx, dialTimeout)
	defer cancel()
	raw, err := t.dial(ctx, address)
	if err != nil {
		return nil, hello{}, err
	}
	s, err := t.track(raw)
	if err != nil {
		return nil, hello{}, err
	}
	c := &link{Conn: tls.Client(s, secured(t.identity.Client(id))), socket: s}
	h, err := t.clientHandshake(ctx, c, id, p)
	if err != nil {
		t.untrack(s)
		return nil, h, fmt.Errorf("%s at %s: %w", orSomebody(id), address, refusal(err))
	}
	return c, h, nil
}

func orSomebody(id string) string {
	if id == "" {
		return "whoever answers"
	}
	return fmt.Sprintf("node %q", id)
}

// clientHandshake lets each end verify the identity of the other.
func (t *Transport) clientHandshake(ctx context.Context, c *link, id string, p purpose) (hello, error) {
	if err := c.HandshakeContext(ctx); err != nil {
		return hello{}, err
	}
	who, err := t.identityOf(c)
	if err != nil {
		return hello{}, err
	}
	if id != "" && who != id {
		return hello{}, api.Errorf(api.Unauthorized, "the certificate is that of node %q", who)
	}
	end, _ := ctx.Deadline()
	if err := c.SetDeadline(end); err != nil {
		return hello{}, err
	}
	_, unwritten := c.Write(t.hello(p))
	h, err := readHello(c) // read even if writing failed, because the peer may have sent a refusal and closed
	if who == t.id {
		err = t.refuseOwnID(c.key)
	} else if err == nil {
		err = t.checkHello(c, h)
	}
	if err == nil && id != "" && t.impostor(h.node, c.key) {
		t.mu.Lock()
		t.warn(t.peer(h.node), c.key, h.address)
		t.mu.Unlock()
		err = errWrongKey(h.node)
	}
	if err = cmp.Or(err, unwritten); err != nil {
		return h, err
	}
	return h, c.SetDeadline(time.Time{})
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
