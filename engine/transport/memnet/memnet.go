// Package memnet is a network in memory for tests of clusters: listeners and connections between named hosts.
// Connections can be cut (also in one direction), delayed and broken. They work in testing/synctest, unlike
// real connections. A connection delivers all bytes in order, as TCP does: bytes held back by a cut arrive
// later, or the connection breaks. Only tests use the package, and it imports no other package of this
// module.
package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// Net is a network. Its methods may be called from any goroutine.
type Net struct {
	mu        sync.Mutex // taken before the mutex of a flow
	listeners map[addr]*listener
	conns     map[*conn]struct{} // the caller's end of each open connection
	cuts      map[way]bool
	isolated  map[string]bool
	delays    map[way]time.Duration
	ports     int
	changed   chan struct{} // closed and replaced when cuts, isolated or delays change
}

// way is a direction between two hosts.
type way struct{ from, to string }

// addr is a port of a host.
type addr struct {
	host string
	port int
}

func (a addr) Network() string { return "mem" }
func (a addr) String() string  { return fmt.Sprintf("%s:%d", a.host, a.port) }

// New returns a network without hosts, in which every host reaches every other without delay. Within
// testing/synctest, call it in the bubble that uses it.
func New() *Net {
	return &Net{
		listeners: map[addr]*listener{},
		conns:     map[*conn]struct{}{},
		cuts:      map[way]bool{},
		isolated:  map[string]bool{},
		delays:    map[way]time.Duration{},
		changed:   make(chan struct{}),
	}
}

// firstPort is above the ports that tests choose.
const firstPort = 10000

// Listen opens a listener of a host at "host:port". If port is 0, Listen chooses one.
func (n *Net) Listen(host string, port int) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == 0 {
		n.ports++
		port = firstPort + n.ports
	}
	a := addr{host, port}
	if n.listeners[a] != nil {
		return nil, &net.OpError{Op: "listen", Net: a.Network(), Addr: a, Err: syscall.EADDRINUSE}
	}
	l := &listener{net: n, addr: a, queue: make(chan *conn, backlog), closed: make(chan struct{})}
	n.listeners[a] = l
	return l, nil
}

// Dialer returns a host's dial function, for transport.Config.Dial.
func (n *Net) Dialer(host string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		c, err := n.dial(ctx, host, address)
		if err != nil {
			return nil, fmt.Errorf("dial %s from %s: %w", address, host, err)
		}
		return c, nil
	}
}

// Cut holds back everything sent from one host to another, in this direction only, until Heal. New
// connections between the two hosts hang in both directions, as they do when packets are dropped.
func (n *Net) Cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[way{from, to}] = true
	n.apply()
}

// Isolate cuts a host off from all others, in both directions.
func (n *Net) Isolate(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isolated[host] = true
	n.apply()
}

// Heal removes all cuts and delivers the bytes that were held back.
func (n *Net) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	clear(n.isolated)
	n.apply()
}

// Break resets every connection between two hosts: both ends get errors, and the bytes in flight are lost.
func (n *Net) Break(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if w := c.out.way; w == (way{a, b}) || w == (way{b, a}) {
			c.reset()
			delete(n.conns, c)
		}
	}
}

// Delay delays all later bytes from one host to another.
func (n *Net) Delay(from, to string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays[way{from, to}] = d
	n.apply()
}

// held reports whether a direction is cut. The caller holds n.mu.
func (n *Net) held(w way) bool {
	return n.cuts[w] || w.from != w.to && (n.isolated[w.from] || n.isolated[w.to])
}

// apply updates all connections to the present cuts and delays. The caller holds n.mu.
func (n *Net) apply() {
	for c := range n.conns {
		for _, f := range []*flow{c.in, c.out} {
			f.set(n.held(f.way), n.delays[f.way])
		}
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// dial waits while the direction to or from the other host is cut, then for a round trip, and then queues the
// connection at the listener.
func (n *Net) dial(ctx context.Context, host, address string) (net.Conn, error) {
	there, err := parse(address)
	if err != nil {
		return nil, err
	}
	out, back := way{host, there.host}, way{there.host, host}
	waited := false
	for {
		n.mu.Lock()
		if n.held(out) || n.held(back) {
			changed := n.changed
			n.mu.Unlock()
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if trip := n.delays[out] + n.delays[back]; trip > 0 && !waited {
			n.mu.Unlock()
			if err := sleep(ctx, trip); err != nil {
				return nil, err
			}
			waited = true
			continue
		}
		c, err := n.connect(out, there)
		n.mu.Unlock()
		return c, err
	}
}

// connect creates a connection and queues its other end at the listener. The caller holds n.mu.
func (n *Net) connect(out way, there addr) (net.Conn, error) {
	l := n.listeners[there]
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	n.ports++
	here := addr{out.from, firstPort + n.ports}
	f, g := newFlow(out), newFlow(way{out.to, out.from})
	f.set(false, n.delays[f.way])
	g.set(false, n.delays[g.way])
	caller := newConn(n, f, g, here, there)
	called := newConn(n, g, f, there, here)
	caller.listed, called.listed = caller, caller
	select {
	case l.queue <- called:
	default:
		return nil, syscall.ECONNREFUSED
	}
	n.conns[caller] = struct{}{}
	return caller, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func parse(address string) (addr, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return addr{}, err
	}
	a := addr{host: host}
	if _, err := fmt.Sscanf(port, "%d", &a.port); err != nil {
		return addr{}, errors.New("the port is not a number")
	}
	return a, nil
}

// backlog bounds the connections that wait to be accepted.
const backlog = 256

type listener struct {
	net    *Net
	addr   addr
	queue  chan *conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
	case c := <-l.queue:
		return c, nil
	}
	return nil, &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed}
}

// Close closes the listener and resets the connections that were not accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		delete(l.net.listeners, l.addr)
		close(l.closed)
		for {
			select {
			case c := <-l.queue:
				c.reset()
				delete(l.net.conns, c.listed)
			default:
				return
			}
		}
	})
	return nil
}
