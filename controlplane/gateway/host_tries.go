package gateway

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/rpc"
)

const (
	// DefaultHostWait is the time for which a request waits for a host that does not take it. A host that is
	// restarted or upgraded is normally back within that time.
	DefaultHostWait = 10 * time.Second
	// firstPause and longestPause are bounds of the wait between two tries of a request. It doubles, and a random part
	// of up to half of it is left out, so that the requests that wait for a host do not all come at once.
	firstPause   = 20 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// errHostRefused means that a host answered 401 to a credential that the gateway accepted. The host does not know
// the client's key yet, or it does not know the key that signs the gateway's service token. The request had no
// effect.
var errHostRefused = errors.New("the host does not know the credential, or not the gateway")

// errHostAway means that the gateway has not sent a request, because its host does not take requests at the
// moment or the gateway has no token for hosts.
var errHostAway = errors.New("the host is away or shuts down")

// errNotOpen means that the newest document names no host with the namespace open, or an address that is no
// URL.
var errNotOpen = errors.New("the namespace is not open on a host now")

// errRefusedUnchanged and errRefusedUnknown mean that a host answered LEADER_UNAVAILABLE.
var (
	errRefusedUnchanged = errors.New("the host refused the request, which changed nothing")
	errRefusedUnknown   = errors.New("the host could not tell whether the request changed something")
)

// hostTries sends a request to the host of its namespace. It tries again within the gateway's HostWait if the
// request had no effect, or if a repeat does no harm: a read, or a request with an Idempotency-Key. In both
// cases the body must have been kept. Each try goes to the host that the newest document names.
type hostTries struct{ gateway *Gateway }

// RoundTrip implements http.RoundTripper.
func (h hostTries) RoundTrip(r *http.Request) (*http.Response, error) {
	g, t := h.gateway, proxiedOf(r.Context())
	answer, err := g.try(t, r)
	if errors.Is(err, errHostAway) { // perhaps it has been back for long
		answer, err = g.tryAgain(t, r)
	}
	if err == nil || !mayTryAgain(t, r, err) {
		return answer, err
	}
	if !g.waiting.enter(t.namespace) {
		return nil, err
	}
	defer g.waiting.leave(t.namespace)
	go t.body.fill()
	until := time.NewTimer(g.config.HostWait)
	defer until.Stop()
	for pause := firstPause; mayTryAgain(t, r, err); pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause - rand.N(pause/2)):
		case <-until.C:
			g.waiting.gaveUp.Add(1)
			return nil, err
		case <-r.Context().Done():
			return nil, err
		}
		if answer, err = g.tryAgain(t, r); err == nil {
			g.waiting.served.Add(1)
			return answer, nil
		}
	}
	return nil, err
}

// tryAgain sends a request once more, to the host of the newest document. If that host is away, tryAgain
// first probes whether it is back.
func (g *Gateway) tryAgain(t *proxiedRequest, r *http.Request) (*http.Response, error) {
	doc, _ := g.directory.Namespace(t.namespace)
	if !reachable(doc) {
		return nil, errNotOpen
	}
	target, err := g.targetOf(doc)
	if err != nil {
		return nil, errors.Join(errNotOpen, err)
	}
	token := g.member.HostToken()
	if token == "" {
		return nil, errHostAway
	}
	t.target, t.host, t.store, t.serviceToken = target, doc.Host, doc.Store, token
	if !g.away.back(r.Context(), g.transport, target) {
		return nil, errHostAway
	}
	out := r.WithContext(r.Context())
	out.Header = r.Header.Clone()
	out.URL = new(url.URL)
	*out.URL = *t.path
	address(&httputil.ProxyRequest{In: &http.Request{URL: t.path}, Out: out}, target)
	out.Header.Set(fleet.ServiceHeader, token)
	if r.Body != nil {
		if out.Body, err = t.body.try(); err != nil {
			return nil, err
		}
	}
	return g.try(t, out)
}

// try sends a request once. Its error tells why the host has not served the request.
func (g *Gateway) try(t *proxiedRequest, r *http.Request) (*http.Response, error) {
	if g.away.has(t.target) {
		return nil, errHostAway
	}
	answer, err := g.transport.RoundTrip(r)
	if err != nil {
		if r.Context().Err() == nil && !t.body.broken.Load() {
			t.doubt = t.doubt || !unsent(err)
			g.away.add(t.target)
		}
		return nil, err
	}
	if answer.Header[fleet.LeavingHeader] != nil {
		g.away.add(t.target)
	}
	if err := g.refusal(t, r, answer); err != nil {
		_, _ = io.CopyN(io.Discard, answer.Body, maxRefusalBytes) // so that the connection can be used again
		answer.Body.Close()
		return nil, err
	}
	t.body.release()
	return answer, nil
}

// refusal returns an error if the host refused a request and the client must not get that refusal: because
// the gateway may try again, or because the gateway's own reason is the right one.
func (g *Gateway) refusal(t *proxiedRequest, r *http.Request, answer *http.Response) error {
	// A worker whose key is refused gives up, so a refusal is passed on only if the gateway comes to the
	// same result: the host may know of a revocation first, or not know the key yet.
	if answer.StatusCode == http.StatusUnauthorized || answer.Header.Get(rpc.CodeHeader) == string(api.Unauthorized) {
		var shutOut error
		g.member.Await(r.Context(), func() bool { shutOut = g.shutOut(&t.inflightRequest); return shutOut != nil })
		if shutOut != nil {
			return shutOut
		}
		return errHostRefused
	}
	outcome := answer.Header.Get(fleet.OutcomeHeader)
	switch {
	case outcome == "" || !t.body.repeats():
		return nil
	case outcome == fleet.Unchanged:
		return errRefusedUnchanged
	case idempotent(r):
		t.doubt = true
		return errRefusedUnknown
	}
	return nil
}

// mayTryAgain reports whether a request that failed with err may be sent again.
func mayTryAgain(t *proxiedRequest, r *http.Request, err error) bool {
	if r.Context().Err() != nil || errors.As(err, new(*api.Error)) || !t.body.repeats() {
		return false
	}
	return unsent(err) || idempotent(r)
}

// unsent reports whether a try that failed with err had no effect, because it was not sent or the host said so.
func unsent(err error) bool {
	for _, harmless := range []error{errHostRefused, errHostAway, errNotOpen, errRefusedUnchanged} {
		if errors.Is(err, harmless) {
			return true
		}
	}
	return unconnected(err)
}
