package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/rpc"
)

// transports are the connections to hosts. Requests go over HTTP/1.1, one at a time on a connection. The RPC
// goes over HTTP/2, because its streams go both ways at once. The streams of an HTTP/2 connection share a
// flow-control window, so that one stream that the host does not read would block all others. So each
// namespace has HTTP/2 connections of its own.
//
// With a certificate the gateway speaks TLS with the host and the store that the document names, and with
// nobody else at their address. Two documents may name one address with different members for a while, so
// each member has connections of its own.
type transports struct {
	certificate *certificate.Holder // nil = plain HTTP
	requests    sync.Map            // peer -> *http.Transport; one for each host that the gateway has spoken to
	calls       sync.Map            // namespace -> *calls
}

// peer is the member at the other end of a connection to a host; zero for plain HTTP.
type peer struct{ host, store string }

// calls are the HTTP/2 connections of a namespace, by member.
type calls struct {
	mu sync.Mutex
	to map[peer]*http.Transport
}

// transport returns the connections to a member; open makes them.
func (c *calls) transport(to peer, open func() *http.Transport) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.to[to]
	if known == nil {
		known = open()
		c.to[to] = known
	}
	return known
}

// keep drops the connections to hosts that are no members any more. Running calls finish, and their connections close
// when they have been idle.
func (c *calls) keep(members []fleet.GroupMember) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for to := range c.to {
		if to != (peer{}) && !slices.ContainsFunc(members, func(m fleet.GroupMember) bool { return to == peer{m.Host, m.Store} }) {
			delete(c.to, to)
		}
	}
}

// closeIdle closes unused connections.
func (c *calls) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, connections := range c.to {
		connections.CloseIdleConnections()
	}
}

func newTransports(held *certificate.Holder) *transports { return &transports{certificate: held} }

// RoundTrip sends a request to its host.
func (t *transports) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := t.peer(r)
	if err != nil {
		return nil, err
	}
	return t.transport(r, to).RoundTrip(r)
}

// peer returns the host of a request.
func (t *transports) peer(r *http.Request) (peer, error) {
	if t.certificate == nil {
		return peer{}, nil
	}
	p := proxiedOf(r.Context())
	if r.URL.Scheme != "https" {
		return peer{}, fmt.Errorf("host %s has the address %s, and this gateway speaks TLS only: start the host without --insecure", p.host, r.URL)
	}
	return peer{p.host, p.store}, nil
}

// transport returns the connections for a request to a host.
func (t *transports) transport(r *http.Request, to peer) *http.Transport {
	if !rpc.Is(r) {
		requests, ok := t.requests.Load(to)
		if !ok {
			one := new(http.Protocols)
			one.SetHTTP1(true)
			requests, _ = t.requests.LoadOrStore(to, t.open(one, to))
		}
		return requests.(*http.Transport)
	}
	namespace := proxiedOf(r.Context()).namespace
	known, ok := t.calls.Load(namespace)
	if !ok {
		known, _ = t.calls.LoadOrStore(namespace, &calls{to: map[peer]*http.Transport{}})
	}
	return known.(*calls).transport(to, func() *http.Transport {
		two := new(http.Protocols)
		two.SetHTTP2(true)
		two.SetUnencryptedHTTP2(true)
		return t.open(two, to)
	})
}

// open makes a transport to a host.
func (t *transports) open(protocols *http.Protocols, to peer) *http.Transport {
	if t.certificate == nil {
		return newTransport(protocols, nil)
	}
	return newTransport(protocols, fleet.HostClient(t.certificate, to.host, to.store))
}

// take drops the connections of a namespace that is not open, and those to hosts that are no members of it any more.
func (t *transports) take(d fleet.Doc) {
	if d.Desired != fleet.Open {
		t.calls.Delete(d.Namespace)
		return
	}
	if known, ok := t.calls.Load(d.Namespace); ok {
		known.(*calls).keep(d.Members)
	}
}

// CloseIdleConnections closes unused connections.
func (t *transports) CloseIdleConnections() {
	t.requests.Range(func(_, requests any) bool {
		requests.(*http.Transport).CloseIdleConnections()
		return true
	})
	t.calls.Range(func(_, known any) bool {
		known.(*calls).closeIdle()
		return true
	})
}
