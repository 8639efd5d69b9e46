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

// How a peer is called that does not answer. All who want it share one attempt.
// maxBackoff and its jitter are how late a peer is found that comes back, and how
// often one that does not is tried.
const (
	dialTimeout = 2 * time.Second // for one address, until it is a connection
	minBackoff  = 20 * time.Millisecond
	maxBackoff  = 150 * time.Millisecond // and up to a quarter more or less
)

// peer is what is known of a node. The Transport's mutex guards it.
type peer struct {
	id       string
	address  string // as told by it or by Learn
	known    string // its key, see Know; "" = any
	toldBy   string // the key of the process that told info
	warned   string // the key of the stranger that was logged last
	info     []byte
	out      *conn   // what we ask goes here
	in       []*conn // what it asks comes from there, oldest first
	flight   *flight // an attempt to make out
	failures int
	retryAt  time.Time // before then, refused is the answer
	refused  error
	heard    time.Time
	clock    clock

	sending   chan struct{} // holds a token for each snapshot on its way to the peer
	receiving int           // its connections for snapshots
}

// flight is an attempt to reach a peer.
type flight struct {
	done chan struct{} // closed when the others are set
	conn *conn
	err  error
}

// peer finds or makes a peer. t.mu is held.
func (t *Transport) peer(id string) *peer {
	p := t.peers[id]
	if p == nil {
		p = &peer{id: id, sending: make(chan struct{}, maxSending)}
		t.peers[id] = p
	}
	return p
}

// Learn notes where a node is. It goes before the address that raft has of it.
// The Transport learns by itself from those who connect.
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

// learn notes an address, and returns the connection to where the peer was. t.mu
// is held.
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

// AddressOf is where a node was last known to be; "" = not known.
func (t *Transport) AddressOf(id string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		return p.address
	}
	return ""
}

// Peers is what is known of all peers, by ID.
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
	s := PeerStatus{Peer: Peer{ID: p.id, Address: p.address}, Info: p.info, Heard: p.heard}
	if p.out != nil {
		s.Key = p.out.key // of who answers where we call
	}
	for _, c := range p.connections() {
		if c.stranger.Load() {
			continue
		}
		s.Connected = true
		if at := c.heardAt(); at.After(s.Heard) {
			s.Heard = at
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

// met notes a connection to us, and what its hello says unless a stranger says it.
func (t *Transport) met(h hello, c *conn) bool {
	var old []*conn
	t.mu.Lock()
	closed := t.closed
	if !closed {
		p := t.peer(h.node)
		c.told = h
		if stranger := p.strange(c.key); stranger {
			c.stranger.Store(true)
			t.warn(p, c.key, h.address)
		} else {
			old = append(old, t.hear(p, h, c.key))
		}
		old = append(old, p.keep(c))
	}
	t.mu.Unlock()
	for _, o := range old {
		o.fail(errMoved)
	}
	return !closed
}

// lost forgets a connection that has ended.
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
	if at := c.heardAt(); at.After(p.heard) && !c.stranger.Load() {
		p.heard = at
	}
	if p.out == nil && len(p.in) == 0 {
		p.clock = clock{} // its clock may be set while we do not look
	}
}

// connection is the one to a peer, made if there is none.
func (t *Transport) connection(ctx context.Context, to Peer) (*conn, error) {
	if to.ID == t.id {
		return nil, fmt.Errorf("node %q does not call itself", t.id)
	}
	t.mu.Lock()
	f, c, err := t.approach(to)
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

// approach finds the connection or the attempt to make it, or begins one. t.mu is
// held.
func (t *Transport) approach(to Peer) (*flight, *conn, error) {
	if t.closed {
		return nil, nil, ErrClosed
	}
	if to.ID == "" {
		return t.approachStranger(to.Address)
	}
	p := t.peer(to.ID)
	switch {
	case p.out != nil:
		return nil, p.out, nil
	case p.flight != nil:
		return p.flight, nil, nil
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
	f := &flight{done: make(chan struct{})}
	p.flight = f
	t.wg.Go(func() { t.fly(p, f, addresses) })
	return f, nil, nil
}

// approachStranger is for whoever answers at an address. t.mu is held.
func (t *Transport) approachStranger(address string) (*flight, *conn, error) {
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
	if f := t.meetings[address]; f != nil {
		return f, nil, nil
	}
	f := &flight{done: make(chan struct{})}
	t.meetings[address] = f
	t.wg.Go(func() {
		c, err := t.reach("", address)
		t.mu.Lock()
		delete(t.meetings, address)
		t.mu.Unlock()
		t.land(f, c, err)
	})
	return f, nil, nil
}

// fly tries a peer's addresses in their order.
func (t *Transport) fly(p *peer, f *flight, addresses []string) {
	var c *conn
	var errs []error
	for _, address := range addresses {
		var err error
		if c, err = t.reach(p.id, address); err == nil {
			break
		}
		errs = append(errs, err)
	}
	t.mu.Lock()
	p.flight = nil
	if c != nil {
		p.failures, p.retryAt = 0, time.Time{}
		errs = nil
	} else {
		p.refused = errors.Join(errs...)
		p.retryAt = time.Now().Add(backoff(p.failures))
		p.failures++
	}
	t.mu.Unlock()
	t.land(f, c, errors.Join(errs...))
}

// backoff is how long a peer is left alone after so many attempts before this one.
func backoff(failures int) time.Duration {
	d := min(minBackoff<<min(failures, 8), maxBackoff)
	return d*3/4 + rand.N(d/2)
}

// land tells those who wait.
func (t *Transport) land(f *flight, c *conn, err error) {
	f.conn, f.err = c, err
	close(f.done)
}

// reach makes a connection for messages and serves it from then on.
func (t *Transport) reach(id, address string) (*conn, error) {
	l, h, err := t.call(id, address, forMessages)
	if err != nil {
		return nil, err
	}
	c := newConn(t, l, h.node, true)
	c.address, c.key = address, l.key
	t.mu.Lock()
	p := t.peer(h.node)
	if p.strange(c.key) {
		old, err := t.guest(p, c, id)
		t.mu.Unlock()
		old.fail(errMoved)
		if err != nil {
			t.disown(l.socket)
			return nil, err
		}
		t.attend(c, l)
		return c, nil
	}
	p.info, p.toldBy = h.info, c.key
	if h.address != "" { // what it tells now is newer than what we have called it by
		p.address, c.address = h.address, h.address
	}
	other := p.out
	closed := t.closed
	if other == nil && !closed {
		p.out = c
	}
	t.mu.Unlock()
	if closed || other != nil {
		t.disown(l.socket)
		if closed {
			return nil, ErrClosed
		}
		return other, nil
	}
	t.attend(c, l)
	return c, nil
}

// attend serves a connection that we have made.
func (t *Transport) attend(c *conn, l *link) {
	t.wg.Go(func() {
		defer t.disown(l.socket)
		c.serve()
	})
}

// call is the handshake at the calling end.
func (t *Transport) call(id, address string, p purpose) (*link, hello, error) {
	ctx, cancel := context.WithTimeout(t.ctx, dialTimeout)
	defer cancel()
	raw, err := t.dial(ctx, address)
	if err != nil {
		return nil, hello{}, err
	}
	s, err := t.own(raw)
	if err != nil {
		return nil, hello{}, err
	}
	c := &link{Conn: tls.Client(s, secured(t.identity.Client(id))), socket: s}
	h, err := t.present(ctx, c, id, p)
	if err != nil {
		t.disown(s)
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

// present proves to each end who the other is.
func (t *Transport) present(ctx context.Context, c *link, id string, p purpose) (hello, error) {
	if err := c.HandshakeContext(ctx); err != nil {
		return hello{}, err
	}
	who, err := identityOf(c)
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
	h, err := readHello(c) // whatever became of ours: who refuses us may have said so, and gone
	if who == t.id {
		err = t.namesake(c.key)
	} else if err == nil {
		err = t.welcome(c, h)
	}
	if err == nil && id != "" && t.stranger(h.node, c.key) {
		t.mu.Lock()
		t.warn(t.peer(h.node), c.key, h.address)
		t.mu.Unlock()
		err = errOther(h.node)
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
