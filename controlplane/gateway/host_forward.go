package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/telemetry"
)

const (
	requestIDHeader    = "X-Request-Id"
	serverTimingHeader = "Server-Timing"

	fetchPath  = "/api/v1/fetch"
	eventsPath = "/api/v1/events"
	streamPath = rpc.Prefix + "StreamLifecycle"
)

// polls are the paths of requests that wait and change nothing meanwhile.
var polls = map[string]bool{
	fetchPath: true, fetchPath + "/batch": true, eventsPath: true,
	rpc.Prefix + "Fetch": true, rpc.Prefix + "FetchBatch": true, rpc.Prefix + "Subscribe": true,
}

// proxiedRequest is the state of a forwarded request. The context of the request to the host holds it.
type proxiedRequest struct {
	inflightRequest
	members      []fleet.GroupMember // of the namespace, as of the last choice
	host         string              // id of the chosen member's host
	store        string              // of the host
	target       *url.URL            // of the host
	first        firstMember         // of the namespace, as of the last choice
	tried        []string            // stores of the members that the request was sent to in this round
	serviceToken string              // proves to the host that the request comes from a gateway
	path         *url.URL            // of the client's request
	body         clientBody          // the body of the client
	reached      bool                // the host has answered
	doubt        bool                // a try may have had an effect
	err          error               // why there is no response
}

type proxiedKey struct{}

func proxiedOf(ctx context.Context) *proxiedRequest { return ctx.Value(proxiedKey{}).(*proxiedRequest) }

// forward authenticates a request and forwards it to a host of its namespace. It returns the error of a request
// that gets no response from the host.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	t := &proxiedRequest{inflightRequest: inflightRequest{
		credential: serve.Credential(r), hint: r.Header.Get(api.NamespaceHeader), cancel: cancel,
		poll: polls[r.URL.Path], stream: r.URL.Path == streamPath,
	}}
	t.closeBody = t.body.end
	t.body.control = http.NewResponseController(w)
	t.body.room = &g.room
	defer t.body.leave()
	defer t.body.release()
	if err := g.findHost(ctx, t, r); err != nil {
		return err
	}
	defer g.inflight.end(&t.inflightRequest)

	ctx = telemetry.FromHeader(ctx, r.Header)
	ctx, span := g.tracer.Start(ctx, telemetry.SpanGateway, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("corvo.namespace", t.namespace), attribute.String("http.request.method", r.Method)))
	if r.ContentLength < 0 && r.ProtoMajor == 1 {
		// The host may answer before the client has sent the whole body, so HTTP/1.1 must read and write at the
		// same time. The error is ignored: a writer that cannot do so, such as a test's, still serves requests
		// whose body ends first.
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	limits := serve.DeadlinesOf(w)
	limits.WriteForever() // the server's deadline is for responses that end; the guard cuts off a client that does not read
	out := &counter{ResponseWriter: w, guard: limits.Guard(g.config.AnswerWait)}
	defer func() {
		limits.EndWritingWithin(g.config.AnswerWait)
		status := out.status
		if t.err != nil {
			status = api.CodeOf(t.err).Status()
			span.RecordError(t.err)
		}
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
		if t.reached {
			g.meter.count(t.namespace, t.body.bytes.Load(), out.bytes)
		}
	}()
	// The proxy would remove every header that Connection names. If a client named Authorization there, the
	// host would refuse the request of a valid client, and the gateway would take the host for failing.
	r.Header.Del("Connection")
	// ServeHTTP panics with http.ErrAbortHandler if a response breaks off.
	g.proxy.ServeHTTP(out, r.WithContext(context.WithValue(ctx, proxiedKey{}, t)))
	return t.err
}

// findHost authenticates a request, chooses its member and adds the request to those under way. The caller
// removes it with inflight.end. findHost refuses with LEADER_UNAVAILABLE while the gateway is not ready, the
// namespace is not open, or the gateway has no service token.
func (g *Gateway) findHost(ctx context.Context, t *proxiedRequest, r *http.Request) error {
	if err := g.Ready(); err != nil {
		// Without documents a gateway must not call a credential invalid.
		return notForwarded(err.Error() + "; try again")
	}
	before := g.directory.Changes()
	doc, err := g.admit(ctx, t, r)
	if err != nil {
		return err
	}
	if !reachable(doc) {
		return notForwarded("the namespace is not open yet: try again")
	}
	if !g.choose(t, &doc) {
		return fmt.Errorf("no member of namespace %s has an address that is a base URL: %v", doc.Namespace, doc.Members)
	}
	if t.serviceToken = g.member.HostToken(); t.serviceToken == "" {
		return notForwarded("the gateway has been without the control plane for too long: try again")
	}
	t.namespace = doc.Namespace
	if err := g.inflight.begin(&t.inflightRequest, g.config.MaxRequests); err != nil {
		return err
	}
	// A document that arrived after admit ended only the requests that were under way by then. This request was
	// not yet one of them, so findHost checks it by the new document.
	if g.directory.Changes() == before {
		return nil
	}
	if err := g.shutOut(&t.inflightRequest); err != nil {
		g.inflight.end(&t.inflightRequest)
		return err
	}
	return nil
}

// reachable reports whether members of a namespace have it open.
func reachable(d fleet.Doc) bool { return d.Ready && len(d.Members) > 0 }

func unavailable(message string) *api.Error {
	e := api.Errorf(api.LeaderUnavailable, "%s", message)
	e.RetryAfter = RetryAfter
	return e
}

// notForwarded returns the refusal of a request that no host has seen.
func notForwarded(message string) *api.Error {
	e := unavailable(message)
	e.Details = map[string]any{api.DetailUnchanged: true}
	return e
}

// newProxy returns a proxy that passes bodies on as they come, both ways.
func (g *Gateway) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      hostTries{g},
		FlushInterval:  -1,
		ModifyResponse: g.answered,
		ErrorHandler:   g.unanswered,
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug), // bodies that break off: the other end knows
		BufferPool:     &buffers{},
	}
}

// rewrite builds the request to the host. The proxy has removed hop-by-hop and forwarding headers;
// rewrite removes the headers that only a gateway may set.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	t := proxiedOf(p.In.Context())
	t.path = p.In.URL
	address(p, t.target)
	h := p.Out.Header
	dropForged(h)
	p.Out.Trailer = nil
	if t.stream {
		p.Out.Trailer = http.Header{fleet.DrainTrailer: nil}
		t.body.trailer = p.Out.Trailer
	}
	h.Set(fleet.ServiceHeader, t.serviceToken)
	h.Set(api.NamespaceHeader, t.namespace)
	h.Set(requestIDHeader, serve.RequestID(p.In.Context()))
	telemetry.PassOn(p.In.Context(), p.In.Header, h)
	if p.Out.Body != nil && p.Out.Body != http.NoBody {
		t.body.ReadCloser = p.Out.Body
		t.body.expect(p.In.ContentLength)
		p.Out.GetBody = t.body.try   // for the transport, which tries again on another connection if it sent nothing
		p.Out.Body, _ = t.body.try() // fails only after a read
	}
}

// answered sees the response of the host before the client does.
func (g *Gateway) answered(r *http.Response) error {
	t := proxiedOf(r.Request.Context())
	t.reached = true
	if _, failing := g.failing.LoadAndDelete(t.host); failing {
		g.log.Info("a host answers again", "host", t.host)
	}
	// The gateway's own headers replace these.
	r.Header.Del(requestIDHeader)
	r.Header.Del(serverTimingHeader)
	r.Header.Del(fleet.LeavingHeader)
	r.Header.Del(fleet.OutcomeHeader)
	r.Header.Del(fleet.LeaderHeader)
	return nil
}

// unanswered sets the error of a request without a response.
func (g *Gateway) unanswered(_ http.ResponseWriter, r *http.Request, err error) {
	t := proxiedOf(r.Context())
	ctx := r.Context()
	var shutOut *api.Error
	switch {
	case errors.As(context.Cause(ctx), &shutOut), errors.As(err, &shutOut):
		t.err = shutOut
	case ctx.Err() != nil:
		t.err = ctx.Err() // the client has left
	case t.body.broken.Load():
		t.err = api.Wrap(err, api.ParseError, "the body broke off: send all that Content-Length announces")
	default:
		if _, known := g.failing.LoadOrStore(t.host, struct{}{}); !known {
			g.log.Warn("a host cannot be reached or refuses the gateway", "host", t.host, "request_id", serve.RequestID(ctx), "error", err)
		}
		e := api.Wrap(err, api.LeaderUnavailable, unreachableMessage(t.doubt))
		e.RetryAfter = RetryAfter
		if !t.doubt {
			e.Details = map[string]any{api.DetailUnchanged: true}
		}
		t.err = e
	}
}

// unreachableMessage tells the client what is certain about its request, and nothing about hosts.
func unreachableMessage(doubt bool) string {
	if doubt {
		return "the namespace cannot be reached at the moment: whether the request had an effect is not known; try again"
	}
	return "the namespace cannot be reached at the moment: nothing was done, try again"
}

// counter counts the bytes written of a response and remembers its status.
type counter struct {
	http.ResponseWriter
	guard  *serve.WriteGuard
	status int
	bytes  int64
}

func (c *counter) WriteHeader(status int) {
	if c.status == 0 && status >= http.StatusOK {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(b []byte) (int, error) {
	c.guard.Begin()
	defer c.guard.End()
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// FlushError sends everything written so far, for http.ResponseController.
func (c *counter) FlushError() error {
	c.guard.Begin()
	defer c.guard.End()
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController use the other methods of the connection.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
