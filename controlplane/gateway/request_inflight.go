package gateway

import (
	"context"
	"sync"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
)

// inflightRequest is one request that is forwarded to a host.
type inflightRequest struct {
	credential, hint string
	namespace        string // of its document
	poll             bool   // it may wait for work or events, and changes nothing meanwhile
	stream           bool   // its body is a stream of frames
	cancel           context.CancelCauseFunc
	closeBody        func() // ends the body of a stream, as if the client had
	stay             stay
}

// drain cancels a poll, or ends the body of a stream. Other requests continue.
func (p *inflightRequest) drain(why error) {
	switch {
	case p.poll:
		p.cancel(why)
	case p.stream:
		p.closeBody()
	}
}

// inflight holds the requests under way, by namespace, so that the gateway can end a request when its
// credential ends. The zero inflight is ready for use.
type inflight struct {
	mu       sync.Mutex
	requests map[string]map[*inflightRequest]struct{}
	draining error // the error that new polls get at once, while the bodies of new streams end; nil = not draining
}

// begin adds a request; end removes it. begin refuses with OVERLOADED if the number of requests of the
// namespace has reached most.
func (f *inflight) begin(p *inflightRequest, most int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.requests[p.namespace]
	if len(all) >= most {
		e := api.Errorf(api.Overloaded, "%d requests of this namespace are under way at this gateway: try again later, with fewer polls and streams at once", most)
		e.RetryAfter = RetryAfter
		return e
	}
	if f.draining != nil {
		p.drain(f.draining)
	}
	if f.requests == nil {
		f.requests = map[string]map[*inflightRequest]struct{}{}
	}
	if all == nil {
		all = map[*inflightRequest]struct{}{}
		f.requests[p.namespace] = all
	}
	all[p] = struct{}{}
	return nil
}

func (f *inflight) end(p *inflightRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.requests[p.namespace]
	delete(all, p)
	if len(all) == 0 {
		delete(f.requests, p.namespace)
	}
}

// drain cancels all present and future polls, and ends the bodies of present and future streams.
func (f *inflight) drain(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draining = why
	for _, all := range f.requests {
		for p := range all {
			p.drain(why)
		}
	}
}

// check calls shutOut for each request of a namespace. If shutOut returns an error, check ends the request
// with it.
func (f *inflight) check(namespace string, shutOut func(*inflightRequest) error) {
	f.mu.Lock()
	var all []*inflightRequest
	for p := range f.requests[namespace] {
		all = append(all, p)
	}
	f.mu.Unlock()
	for _, p := range all {
		if err := shutOut(p); err != nil {
			p.cancel(err)
		}
	}
}

// all returns the requests under way.
func (f *inflight) all() (all []*inflightRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, of := range f.requests {
		for p := range of {
			all = append(all, p)
		}
	}
	return all
}

// checkOf checks the requests that keys or tokens may concern: those of the namespace of the keys, or all, because a
// request does not say of which organisation it is.
func (f *inflight) checkOf(d fleet.Doc, shutOut func(*inflightRequest) error) {
	if d.Kind == fleet.KindKeys {
		f.check(d.Namespace, shutOut)
		return
	}
	f.checkAll(shutOut)
}

func (f *inflight) checkAll(shutOut func(*inflightRequest) error) {
	f.mu.Lock()
	var namespaces []string
	for n := range f.requests {
		namespaces = append(namespaces, n)
	}
	f.mu.Unlock()
	for _, n := range namespaces {
		f.check(n, shutOut)
	}
}
