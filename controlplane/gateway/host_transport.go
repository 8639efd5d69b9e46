package gateway

import (
	"net/http"
	"sync"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/rpc"
)

// transports are the connections to hosts: HTTP/1.1 for requests, each of which has a connection to itself
// while it runs, and HTTP/2 for the RPC, whose streams go both ways at once. The streams of an HTTP/2
// connection share its flow-control window, so that a stream whose host does not read would block all others.
// So each namespace has HTTP/2 connections of its own.
type transports struct {
	requests *http.Transport
	calls    sync.Map // namespace -> *http.Transport
}

func newTransports() *transports {
	one := new(http.Protocols)
	one.SetHTTP1(true)
	return &transports{requests: newTransport(one)}
}

// RoundTrip sends a request to its host.
func (t *transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if !rpc.Is(r) {
		return t.requests.RoundTrip(r)
	}
	namespace := proxiedOf(r.Context()).namespace
	calls, ok := t.calls.Load(namespace)
	if !ok {
		two := new(http.Protocols)
		two.SetHTTP2(true)
		two.SetUnencryptedHTTP2(true)
		calls, _ = t.calls.LoadOrStore(namespace, newTransport(two))
	}
	return calls.(*http.Transport).RoundTrip(r)
}

// take drops the connections of a namespace that is not open. Running calls finish, and their connections
// close when they have been idle.
func (t *transports) take(d fleet.Doc) {
	if d.Desired != fleet.Open {
		t.calls.Delete(d.Namespace)
	}
}

// CloseIdleConnections closes unused connections.
func (t *transports) CloseIdleConnections() {
	t.requests.CloseIdleConnections()
	t.calls.Range(func(_, calls any) bool {
		calls.(*http.Transport).CloseIdleConnections()
		return true
	})
}
