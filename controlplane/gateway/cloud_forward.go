package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/telemetry"
)

// cloudPath is the prefix of the paths that the gateway forwards to the control plane. It forwards no other
// path there, because the routes of hosts and gateways (/fleet/v1) are not public.
const cloudPath = "/cloud/v1/"

// cloud forwards requests of the cloud API to the control plane, so that people and tools need one URL.
// The control plane checks permissions and the size of bodies; the credential passes unchanged.
type cloud struct {
	gateway   *Gateway
	transport http.RoundTripper // to one process of the control plane
	proxy     *httputil.ReverseProxy

	draining context.Context // its end cancels GET requests, because some wait for an operation
	drain    context.CancelCauseFunc
}

// ask is one request to the control plane.
type ask struct {
	from netip.Addr // the client
	own  string     // the URL at which the client reached the gateway
	err  error      // why the client gets no response of the control plane
}

type askKey struct{}

func (g *Gateway) newCloud() (*cloud, error) {
	c := &cloud{gateway: g}
	c.draining, c.drain = context.WithCancelCause(context.Background())
	one := new(http.Protocols)
	one.SetHTTP1(true)
	var secure *tls.Config
	if held := g.config.Certificate; held != nil {
		secure = fleet.ControlPlaneClient(held)
	}
	transport := newTransport(one, secure)
	transport.Proxy = http.ProxyFromEnvironment // the control plane may lie behind an outbound proxy
	c.transport = transport
	if g.config.HTTP != nil && g.config.HTTP.Transport != nil {
		c.transport = g.config.HTTP.Transport
	}
	c.proxy = &httputil.ReverseProxy{
		Rewrite:        c.rewrite,
		Transport:      processes{c.transport, g.member.Endpoints()},
		FlushInterval:  -1,
		ModifyResponse: c.answered,
		ErrorHandler:   func(_ http.ResponseWriter, r *http.Request, err error) { c.unanswered(r, err) },
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		BufferPool:     &buffers{},
	}
	return c, nil
}

// routes returns one catch-all route for each method that the cloud API uses.
func (c *cloud) routes() (all []serve.Route) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		all = append(all, serve.Route{
			Method: method, Path: cloudPath + "{path...}", Permission: serve.Open, Handler: c.pass,
			Conditions: []string{serve.IfMatch, serve.IfNoneMatch},
		})
	}
	return all
}

// pass applies the rate limit of the client's address to one request and forwards it. It refuses a path with the
// segment "." or "..".
func (c *cloud) pass(w http.ResponseWriter, r *http.Request) error {
	for segment := range strings.SplitSeq(r.URL.Path, "/") {
		// The server refuses plain dot segments itself. A proxy on the way might resolve an escaped one.
		if segment == "." || segment == ".." {
			return api.Errorf(api.NotFound, "there is no route %s: a name must not be . or ..", cloudPath)
		}
	}
	a := &ask{from: c.gateway.limits.ClientAddress(r), own: ownURL(r)}
	if err := c.gateway.limits.AllowAddress(a.from, c.gateway.config.Now()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), askKey{}, a))
	defer cancel(nil)
	if r.Method == http.MethodGet { // it may wait for an operation and changes nothing
		defer context.AfterFunc(c.draining, func() { cancel(context.Cause(c.draining)) })()
	}
	r.Header.Del("Connection") // see Gateway.forward
	limits := serve.DeadlinesOf(w)
	limits.WriteForever()
	out := &counter{ResponseWriter: w, guard: limits.Guard(c.gateway.config.AnswerWait)}
	defer limits.EndWritingWithin(c.gateway.config.AnswerWait)
	c.proxy.ServeHTTP(out, r.WithContext(ctx))
	return a.err
}

// rewrite builds the request to the control plane, except for the address: processes.RoundTrip sets that.
func (c *cloud) rewrite(p *httputil.ProxyRequest) {
	a := p.In.Context().Value(askKey{}).(*ask)
	p.Out.Host = ""
	p.Out.URL.RawQuery = p.In.URL.RawQuery // see address
	dropForged(p.Out.Header)
	p.Out.Trailer = nil
	if a.from.IsValid() {
		p.Out.Header.Set("X-Forwarded-For", a.from.String())
	}
	p.Out.Header.Set(requestIDHeader, serve.RequestID(p.In.Context()))
	telemetry.PassOn(p.In.Context(), p.In.Header, p.Out.Header)
}

// address directs a request to a server and leaves the client's query unchanged. The proxy has dropped the
// malformed parts of the query, and a request without them can mean something else: a deletion would lose its
// condition.
func address(p *httputil.ProxyRequest, server *url.URL) {
	p.SetURL(server)
	p.Out.URL.RawQuery = p.In.URL.RawQuery
}

// dropForged removes the headers that only a gateway or a proxy may set, and those that would open a
// tunnel, because nobody checks the requests in a tunnel.
func dropForged(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Corvo-Service-") {
			delete(h, name)
		}
	}
	for _, name := range []string{"Forwarded", "X-Real-Ip", "Upgrade", "Connection"} {
		h.Del(name)
	}
}

// answered sees the response before the client does. A response 401 counts against the address of the client,
// like an authentication that fails at the gateway itself. Above the limit the client gets RATE_LIMITED
// instead of the response.
func (c *cloud) answered(r *http.Response) error {
	if r.StatusCode == http.StatusUnauthorized {
		a := r.Request.Context().Value(askKey{}).(*ask)
		if err := c.gateway.limits.AllowFailure(a.from, c.gateway.config.Now()); err != nil {
			return err
		}
	}
	if r.StatusCode == http.StatusServiceUnavailable {
		hideLeader(r, r.Request.Context().Value(askKey{}).(*ask).own)
	}
	r.Header.Del(requestIDHeader)
	r.Header.Del(serverTimingHeader)
	return nil
}

// unanswered sets the error of a request whose client gets no response of the control plane.
func (c *cloud) unanswered(r *http.Request, err error) {
	ctx, a := r.Context(), r.Context().Value(askKey{}).(*ask)
	var known *api.Error
	switch {
	case errors.As(context.Cause(ctx), &known), errors.As(err, &known):
		a.err = known
	case ctx.Err() != nil:
		a.err = ctx.Err() // the client has left
	default:
		message := "the control plane cannot be reached at the moment: whether the request had an effect is not known; try again. Jobs and queues are still served"
		if unconnected(err) {
			message = "the control plane cannot be reached at the moment: nothing was done, try again. Jobs and queues are still served"
		}
		e := api.Wrap(err, api.LeaderUnavailable, message)
		e.RetryAfter = RetryAfter
		a.err = e
	}
}

// close closes idle connections.
func (c *cloud) close() {
	if t, ok := c.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}
