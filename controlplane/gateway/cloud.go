package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/telemetry"
)

// cloudPath is where the paths begin that the control plane answers. Nothing else is
// forwarded to it: what hosts and gateways ask (/fleet/v1) is not for the public.
const cloudPath = "/cloud/v1/"

// cloud forwards requests of the cloud API to the control plane, so that people and
// tools need one URL. Who may do what, and how large a body may be, the control plane
// says: the credential passes through as it came.
type cloud struct {
	gateway *Gateway
	base    *url.URL
	proxy   *httputil.ReverseProxy

	draining context.Context // ends long polls
	drain    context.CancelCauseFunc
}

// ask is one request on its way to the control plane.
type ask struct {
	from netip.Addr // the client
	err  error      // why there is no answer
}

type askKey struct{}

func (g *Gateway) newCloud() (*cloud, error) {
	base, err := url.Parse(g.config.ControlPlane)
	if err != nil {
		return nil, err
	}
	c := &cloud{gateway: g, base: base}
	c.draining, c.drain = context.WithCancelCause(context.Background())
	one := new(http.Protocols)
	one.SetHTTP1(true)
	transport := newTransport(one)
	transport.Proxy = http.ProxyFromEnvironment // it need not be a neighbour
	var trip http.RoundTripper = transport
	if g.config.HTTP != nil && g.config.HTTP.Transport != nil {
		trip = g.config.HTTP.Transport
	}
	c.proxy = &httputil.ReverseProxy{
		Rewrite:        c.rewrite,
		Transport:      trip,
		FlushInterval:  -1,
		ModifyResponse: c.answered,
		ErrorHandler:   func(_ http.ResponseWriter, r *http.Request, err error) { c.unanswered(r, err) },
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		BufferPool:     &buffers{},
	}
	return c, nil
}

// routes are one catch-all for each method.
func (c *cloud) routes() (all []serve.Route) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		all = append(all, serve.Route{
			Method: method, Path: cloudPath + "{path...}", Permission: serve.Open, Handler: c.pass,
			Conditions: []string{serve.IfMatch, serve.IfNoneMatch},
		})
	}
	return all
}

// pass applies the rate limits to one request and forwards it.
func (c *cloud) pass(w http.ResponseWriter, r *http.Request) error {
	for segment := range strings.SplitSeq(r.URL.Path, "/") {
		if segment == "." || segment == ".." { // escaped: a proxy on the way might resolve it
			return api.Errorf(api.NotFound, "there is no route %s: a name cannot be . or ..", cloudPath)
		}
	}
	a := &ask{from: c.gateway.limits.ClientAddress(r)}
	if err := c.gateway.limits.AllowAddress(a.from, c.gateway.config.Now()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), askKey{}, a))
	defer cancel(nil)
	if r.Method == http.MethodGet { // it may wait for an operation and has done nothing
		defer context.AfterFunc(c.draining, func() { cancel(context.Cause(c.draining)) })()
	}
	r.Header.Del("Connection") // see Gateway.pass
	limits := serve.DeadlinesOf(w)
	limits.WriteForever()
	out := &counter{ResponseWriter: w, guard: limits.Guard(c.gateway.config.AnswerWait)}
	defer limits.EndWritingWithin(c.gateway.config.AnswerWait)
	c.proxy.ServeHTTP(out, r.WithContext(ctx))
	return a.err
}

// rewrite makes the request to the control plane.
func (c *cloud) rewrite(p *httputil.ProxyRequest) {
	a := p.In.Context().Value(askKey{}).(*ask)
	p.SetURL(c.base)
	dropForged(p.Out.Header)
	p.Out.Trailer = nil
	if a.from.IsValid() {
		p.Out.Header.Set("X-Forwarded-For", a.from.String())
	}
	p.Out.Header.Set(requestIDHeader, serve.RequestID(p.In.Context()))
	telemetry.PassOn(p.In.Context(), p.In.Header, p.Out.Header)
}

// dropForged removes what a client could pass off as said by a gateway or a proxy, and
// what would make a tunnel, because a tunnel carries requests that nobody has checked.
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

// answered sees the answer before the client does: a failure to authenticate counts
// against the client's address as one at a host does.
func (c *cloud) answered(r *http.Response) error {
	if r.StatusCode == http.StatusUnauthorized {
		a := r.Request.Context().Value(askKey{}).(*ask)
		if err := c.gateway.limits.AllowFailure(a.from, c.gateway.config.Now()); err != nil {
			return err
		}
	}
	r.Header.Del(requestIDHeader)
	r.Header.Del(serverTimingHeader)
	return nil
}

// unanswered finds the error for a request that has no answer.
func (c *cloud) unanswered(r *http.Request, err error) {
	ctx, a := r.Context(), r.Context().Value(askKey{}).(*ask)
	var known *api.Error
	switch {
	case errors.As(context.Cause(ctx), &known), errors.As(err, &known):
		a.err = known
	case ctx.Err() != nil:
		a.err = ctx.Err() // the client has left
	default:
		message := "the control plane cannot be reached at the moment: whether the request had an effect is not known; try again. Jobs and queues are served on"
		var network *net.OpError
		if errors.As(err, &network) && network.Op == "dial" {
			message = "the control plane cannot be reached at the moment: nothing was done, try again. Jobs and queues are served on"
		}
		e := api.Wrap(err, api.LeaderUnavailable, message)
		e.RetryAfter = RetryAfter
		a.err = e
	}
}

// close lets go of idle connections.
func (c *cloud) close() {
	if t, ok := c.proxy.Transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}
