package gateway

import (
	"encoding/json"
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

// errNotOpen means that the newest document names no member with the namespace open, or only addresses that are no
// URLs.
var errNotOpen = errors.New("the namespace is not open on a host now")

// errRefusedUnchanged and errRefusedUnknown mean that a host answered LEADER_UNAVAILABLE or UNHEALTHY.
var (
	errRefusedUnchanged = errors.New("the host refused the request, which changed nothing")
	errRefusedUnknown   = errors.New("the host could not tell whether the request changed something")
)

// hostTries sends a request to a member of its namespace. It tries again within the gateway's HostWait if the
// request had no effect, or if a repeat does no harm: a read, or a request with an Idempotency-Key. In both
// cases the body must have been kept. A round of tries goes to each member of the newest document once. A pause
// follows each round.
type hostTries struct{ gateway *Gateway }

// RoundTrip implements http.RoundTripper.
func (h hostTries) RoundTrip(r *http.Request) (*http.Response, error) {
	g, t := h.gateway, proxiedOf(r.Context())
	answer, err := g.try(t, r)
	if err == nil || !mayTryAgain(t, r, err) {
		return answer, err
	}
	if !errors.Is(err, errHostAway) { // else a probe may find that the host has been back for long
		t.tried = append(t.tried, t.store)
	}
	until := time.Now().Add(g.config.HostWait)
	if answer, err = g.tryMembers(t, r, until, err); err == nil || !mayTryAgain(t, r, err) {
		return answer, err
	}
	if !g.waiting.enter(t.namespace) {
		return nil, err
	}
	defer g.waiting.leave(t.namespace)
	go t.body.fill()
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	for pause := firstPause; mayTryAgain(t, r, err); pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause - rand.N(pause/2)):
		case <-over.C:
			g.waiting.gaveUp.Add(1)
			return nil, err
		case <-r.Context().Done():
			return nil, err
		}
		t.tried = t.tried[:0]
		if answer, err = g.tryMembers(t, r, until, errNotOpen); err == nil {
			g.waiting.served.Add(1)
			return answer, nil
		}
	}
	return nil, err
}

// tryMembers sends a request to one member after the other, until a member serves it, the round or the time is over,
// or the request may not be sent again. before is the error of the try before.
func (g *Gateway) tryMembers(t *proxiedRequest, r *http.Request, until time.Time, before error) (*http.Response, error) {
	err := before
	for time.Now().Before(until) && mayTryAgain(t, r, err) {
		doc, _ := g.directory.Namespace(t.namespace)
		if !reachable(doc) {
			return nil, errNotOpen
		}
		if !g.choose(t, &doc) {
			break
		}
		t.tried = append(t.tried, t.store)
		var answer *http.Response
		if answer, err = g.tryAgain(t, r); err == nil {
			return answer, nil
		}
	}
	return nil, err
}

// tryAgain sends a request once more, to the chosen member. If that host is away, tryAgain first probes whether it
// is back.
func (g *Gateway) tryAgain(t *proxiedRequest, r *http.Request) (*http.Response, error) {
	if t.serviceToken = g.member.HostToken(); t.serviceToken == "" {
		return nil, errHostAway
	}
	if !g.away.back(r.Context(), g.transport, peer{t.host, t.store}, t.target) {
		return nil, errHostAway
	}
	out := r.WithContext(r.Context())
	out.Header = r.Header.Clone()
	out.URL = new(url.URL)
	*out.URL = *t.path
	address(&httputil.ProxyRequest{In: &http.Request{URL: t.path}, Out: out}, t.target)
	out.Header.Set(fleet.ServiceHeader, t.serviceToken)
	if r.Body != nil {
		var err error
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
	answer, err := g.transport.RoundTrip(t.stay.begin(t, r))
	if !t.stay.answered() {
		t.doubt = true
		if err == nil {
			answer.Body.Close()
		}
		return nil, errHostSilent
	}
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
	err = g.refusal(t, r, answer)
	if refused := answer.Header[fleet.OutcomeHeader] != nil; err == nil || refused {
		g.learn(t, answer.Header.Get(fleet.LeaderHeader), refused)
	}
	if err != nil {
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
	case len(t.members) == 1 && refusalCode(answer) == api.Unhealthy: // only an operator can help
		return nil
	case outcome == fleet.Unchanged:
		return errRefusedUnchanged
	case idempotent(r):
		t.doubt = true
		return errRefusedUnknown
	}
	return nil
}

// refusalCode returns the code of a refusal, in HTTP or in the RPC. The body can still be read.
func refusalCode(answer *http.Response) api.Code {
	if code := answer.Header.Get(rpc.CodeHeader); code != "" {
		return api.Code(code)
	}
	var problem struct {
		Code api.Code `json:"code"`
	}
	_ = json.Unmarshal(peek(answer), &problem) // another body has no code
	return problem.Code
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
