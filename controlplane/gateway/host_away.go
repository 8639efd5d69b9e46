package gateway

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api/fleet"
)

const (
	// probeEvery is the time between two probes of a host that is away.
	probeEvery = 50 * time.Millisecond
	// probeTimeout is the time for the answer to a probe. A host that is opening has a listener, and answers when it
	// has opened its namespaces.
	probeTimeout = time.Second
)

// awayHosts holds the hosts that get no request, because the last one failed or because the host said that it
// shuts down. A request to a host that is about to close its listener may be lost, and nobody could tell
// whether it had an effect. So the first request to a host that was away is a probe, which may be lost.
type awayHosts struct{ hosts sync.Map } // base URL -> *awayHost

// awayHost is one host that is away.
type awayHost struct {
	probing sync.Mutex // held by the only probe
	next    time.Time  // of the next probe
}

// add records that a host is away.
func (a *awayHosts) add(target *url.URL) { a.hosts.LoadOrStore(target, new(awayHost)) }

// has reports whether a host is away, as far as the gateway knows.
func (a *awayHosts) has(target *url.URL) bool {
	_, away := a.hosts.Load(target)
	return away
}

// back reports whether a host takes requests. If it was away, back probes it, unless another request does so at present
// or has done so just now.
func (a *awayHosts) back(ctx context.Context, transport http.RoundTripper, to peer, target *url.URL) bool {
	if !a.has(target) {
		return true
	}
	done := a.begin(target)
	return done != nil && done(answers(ctx, transport, to, target))
}

// begin reserves the probe of a host that is away. It returns nil if the host is not away, or if another goroutine
// probes it at present or has done so just now. The caller calls done with the result, which done returns.
func (a *awayHosts) begin(target *url.URL) (done func(back bool) bool) {
	found, away := a.hosts.Load(target)
	if !away {
		return nil
	}
	host := found.(*awayHost)
	if !host.probing.TryLock() {
		return nil
	}
	if time.Now().Before(host.next) {
		host.probing.Unlock()
		return nil
	}
	return func(back bool) bool {
		defer host.probing.Unlock()
		if !back {
			host.next = time.Now().Add(probeEvery)
			return false
		}
		a.hosts.CompareAndDelete(target, found)
		return true
	}
}

// answers sends a probe to a host, and reports whether the host answers and does not shut down.
func answers(ctx context.Context, transport http.RoundTripper, to peer, target *url.URL) bool {
	answer, err := probe(ctx, transport, to, target, probeTimeout)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.Header[fleet.LeavingHeader] == nil
}

// probe asks a host for its health.
func probe(ctx context.Context, transport http.RoundTripper, to peer, target *url.URL, limit time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx = context.WithValue(ctx, proxiedKey{}, &proxiedRequest{host: to.host, store: to.store})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.JoinPath("/healthz").String(), nil)
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(r)
}

const (
	// MaxWaitingOfNamespace is the number of requests of one namespace that wait for its host at the same time. A
	// further one is refused at once.
	MaxWaitingOfNamespace = 1000
	// MaxWaiting is that number for all namespaces.
	MaxWaiting = 8000
)

// waitingRequests counts the requests that wait for their hosts. Its zero value is ready for use.
type waitingRequests struct {
	mu     sync.Mutex
	all    int
	of     map[string]int // namespace -> number, without zeros
	served atomic.Uint64  // requests that waited and were served
	gaveUp atomic.Uint64  // requests that waited for HostWait in vain
	full   atomic.Uint64  // requests that were refused, because too many waited
}

// enter counts a request that begins to wait. It returns false if too many wait already.
func (w *waitingRequests) enter(namespace string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= MaxWaiting || w.of[namespace] >= MaxWaitingOfNamespace {
		w.full.Add(1)
		return false
	}
	if w.of == nil {
		w.of = map[string]int{}
	}
	w.all++
	w.of[namespace]++
	return true
}

// leave counts a request that no longer waits.
func (w *waitingRequests) leave(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.of[namespace]--; w.of[namespace] == 0 {
		delete(w.of, namespace)
	}
}

// number returns the number of waiting requests.
func (w *waitingRequests) number() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}
