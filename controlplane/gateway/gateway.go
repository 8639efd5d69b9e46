// Package gateway is the tenants' entry point to the data plane of the cloud. It authenticates a request by
// the documents that it follows and forwards it to the host of the namespace. A gateway makes no other call
// while a request waits, so that it works while the control plane is down. It stores only data that it can
// fetch again, so that there may be any number of gateways. With a data directory a gateway can also start
// while the control plane is down. The host decides what a request may do. Requests of the cloud API go to
// the control plane, which decides about them.
package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/serve/about"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/api/spec"
	"github.com/corvo/corvo/telemetry"
)

// The connections to hosts.
const (
	// IdleConnsPerHost is the largest number of idle connections to a host that one transport keeps.
	IdleConnsPerHost = 1024
	// DialTimeout is the time for a host to accept a connection.
	DialTimeout = 5 * time.Second
	// idleTimeout is shorter than that of hosts, so that a host never closes a connection just as the
	// gateway uses it.
	idleTimeout = 30 * time.Second
)

// RecheckEvery is the time between two checks of whether the credentials of running requests have
// expired. A revocation in a document takes effect at once.
const RecheckEvery = time.Second

// RetryAfter is the wait that a client is told if the gateway cannot serve its request at the moment.
const RetryAfter = time.Second

// DefaultAnswerWait is the time for which a client may stop reading its response before the gateway cuts it
// off.
const DefaultAnswerWait = 30 * time.Second

// DefaultMaxRequests is the limit on requests of one namespace that are under way at once. Without it the polls of one
// namespace could take all connections of a gateway, or its memory, because a connection of HTTP/2 carries many.
const DefaultMaxRequests = 10_000

// Config configures a gateway. ControlPlane and Credential are required.
type Config struct {
	ControlPlane string // base URL, or the base URLs of several processes, separated by commas
	Credential   string // of the gateway, cv_gw_...
	Version      string // of the binary
	// Certificate holds the gateway's certificate for TLS to the control plane and to hosts. nil = it has
	// none: it speaks plain HTTP, or verifies an https URL by the roots of the system.
	Certificate *certificate.Holder
	// DataDir is the directory for documents and session, so that the gateway can serve after a restart
	// while the control plane is down; "" = they are not stored.
	DataDir string

	Limits     ratelimit.Limits // rate limits of the gateway itself
	AnswerWait time.Duration    // 0 = DefaultAnswerWait
	// MaxRequests is the limit on requests of one namespace that are under way at once, waiting polls and streams
	// included; 0 = DefaultMaxRequests.
	MaxRequests int
	HostWait    time.Duration // longest wait of a request for a host that is away; 0 = DefaultHostWait

	HTTP      *http.Client         // for the control plane; nil = one of the gateway's own
	Transport http.RoundTripper    // for hosts; nil = transports of the gateway's own
	Tracer    trace.TracerProvider // nil = no traces
	Metrics   *telemetry.Registry  // of this gateway alone; nil = a private registry
	Logger    *slog.Logger         // nil = slog.Default()
	Now       func() time.Time     // nil = time.Now
	Rand      io.Reader            // nil = crypto/rand
}

// Gateway is an http.Handler for the paths of the data plane and of the cloud API, for the OpenAPI documents
// and for its own health. The http.Server in front of it must have no ReadTimeout, because streams are
// endless. The server's WriteTimeout applies to the gateway's own responses; a forwarded response may take as
// long as the client reads it.
type Gateway struct {
	config    Config
	member    *fleet.Member
	directory *fleet.Directory
	proxy     *httputil.ReverseProxy
	transport http.RoundTripper
	cloud     *cloud
	handler   http.Handler
	tracer    trace.Tracer
	log       *slog.Logger
	cache     *documentCache // nil without Config.DataDir
	known     atomic.Bool    // every document has come, or those of an earlier run are used
	inflight  inflight
	limits    ratelimit.Limiter
	rates     rates
	meter     *meter
	targets   sync.Map // address -> *url.URL
	failing   sync.Map // id of a host -> struct{}: its last request failed
	away      awayHosts
	first     firstMembers
	watch     hostWatch
	probes    sync.WaitGroup // in the background
	waiting   waitingRequests
	room      room
}

// New returns a gateway. It answers requests of the data plane with 503 until Run has received the documents,
// or uses the documents in Config.DataDir. The caller must call Run, which also releases that directory. An
// error means a mistake in the configuration, a data directory that cannot be used, or missing randomness.
func New(c Config) (*Gateway, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Tracer == nil {
		c.Tracer = noop.NewTracerProvider()
	}
	c.AnswerWait = cmp.Or(c.AnswerWait, DefaultAnswerWait)
	c.MaxRequests = cmp.Or(c.MaxRequests, DefaultMaxRequests)
	c.HostWait = cmp.Or(c.HostWait, DefaultHostWait)
	if err := c.Limits.Check(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if c.Metrics == nil {
		c.Metrics = telemetry.NewRegistry()
	}
	g := &Gateway{
		config: c, directory: fleet.NewDirectory(), transport: c.Transport, log: c.Logger, limits: ratelimit.New(c.Limits),
		tracer: c.Tracer.Tracer("github.com/corvo/corvo/controlplane/gateway"),
	}
	if err := g.open(); err != nil {
		if g.cache != nil {
			err = errors.Join(err, g.cache.close())
		}
		return nil, fmt.Errorf("gateway: %w", err)
	}
	return g, nil
}

// open creates the parts of the gateway.
func (g *Gateway) open() (err error) {
	c := g.config
	member := fleet.MemberConfig{
		ControlPlane: c.ControlPlane, Credential: c.Credential, Join: fleet.JoinRequest{Version: c.Version},
		Certificate: c.Certificate, HTTP: c.HTTP, Now: c.Now, Logger: c.Logger,
	}
	if c.DataDir != "" {
		var docs []fleet.Doc
		if g.cache, docs, err = openDocumentCache(c.DataDir, c.Credential, c.Now(), c.Logger); err != nil {
			return err
		}
		member.Trusted, member.Last = g.cache.catalogue.Trusted(), g.cache.session
		for _, d := range docs {
			g.directory.Put(d)
		}
	}
	if g.member, err = fleet.NewMember(member); err != nil {
		return err
	}
	if g.transport == nil {
		g.transport = newTransports(c.Certificate)
	}
	if g.meter, err = newMeter(c.Rand, c.Now, g.member, g.directory, c.Logger); err != nil {
		return err
	}
	g.proxy = g.newProxy()
	if g.cloud, err = g.newCloud(); err != nil {
		return err
	}
	c.Metrics.Collect(g.measure, telemetry.CertificateRemaining, telemetry.GatewayDocumentsAge, telemetry.GatewayWaiting, telemetry.GatewayWaits)
	g.handler, err = serve.New(serve.Config{
		Routes:  g.routes(),
		Logger:  c.Logger,
		Metrics: telemetry.NewHTTP(c.Metrics),
	})
	if err != nil {
		return err
	}
	g.handler = about.Wrap(g.handler, about.Site{
		Name: "Corvo gateway", Text: "A job queue in the cloud. Every route but these takes an API key of a namespace, or a token below /cloud/v1.",
		Documents: []about.Document{about.APIDocument, about.CloudDocument}, Start: about.StartAtAPI,
	})
	return nil
}

// newTransport returns a transport without a time limit for responses, because a poll may take a minute and a
// stream for ever, and a client that has waited long enough leaves. It uses no proxy, because hosts are near;
// newCloud sets one for the control plane. secure is the configuration of TLS; nil = plain HTTP.
func newTransport(protocols *http.Protocols, secure *tls.Config) *http.Transport {
	t := &http.Transport{
		Protocols:             protocols,
		TLSClientConfig:       secure,
		DialContext:           (&net.Dialer{Timeout: DialTimeout}).DialContext,
		TLSHandshakeTimeout:   DialTimeout,
		MaxIdleConnsPerHost:   IdleConnsPerHost,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // bodies pass unchanged
	}
	if secure != nil {
		t.DialTLSContext = dialTLS(t)
	}
	return t
}

// dialTLS returns the function that opens a transport's TLS connections. The function returns a failed
// handshake as an error of the dial. Nothing of a request has been sent then, so the gateway may send the
// request again.
func dialTLS(t *http.Transport) func(ctx context.Context, network, address string) (net.Conn, error) {
	secure := t.TLSClientConfig.Clone()
	secure.NextProtos = []string{"http/1.1"}
	if t.Protocols.HTTP2() {
		secure.NextProtos = []string{"h2"}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := t.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, t.TLSHandshakeTimeout)
		defer cancel()
		named := secure.Clone()
		named.ServerName, _, _ = net.SplitHostPort(address) // a load balancer may choose the server by it
		verified := tls.Client(conn, named)
		if err := verified.HandshakeContext(ctx); err != nil {
			conn.Close() // the error of the handshake says more
			return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: err}
		}
		return verified, nil
	}
}

// routes returns the gateway's own routes and, for each method, catch-all routes for the data plane and the
// cloud API. They are Open in the table, because forward authenticates the requests of the data plane itself,
// before it reads anything of the body, and the control plane authenticates those of the cloud API.
func (g *Gateway) routes() []serve.Route {
	all := []serve.Route{
		{Method: http.MethodGet, Path: "/healthz", Permission: serve.Open, Handler: g.healthz},
		{Method: http.MethodGet, Path: "/readyz", Permission: serve.Open, Handler: g.readyz},
		{Method: http.MethodGet, Path: "/openapi.json", Permission: serve.Open, Handler: openAPI},
	}
	all = append(all, g.cloud.routes()...)
	// The host checks the conditions of a request.
	conditions := []string{serve.IfMatch, serve.IfNoneMatch}
	all = append(all, serve.Route{Method: http.MethodPost, Path: rpc.Prefix + "{procedure}", Permission: serve.Open, Handler: g.forward, Problem: rpc.Refuse, Conditions: conditions})
	all = append(all, serve.Route{Method: http.MethodGet, Path: "/metrics", Permission: serve.Open, Handler: g.forward, Conditions: conditions})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		all = append(all, serve.Route{Method: method, Path: "/api/v1/{path...}", Permission: serve.Open, Handler: g.forward, Conditions: conditions})
	}
	return all
}

func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// Run follows the documents and delivers usage until ctx ends. Then it delivers the remaining usage, for at
// most fleet.CallTimeout, and writes the documents to Config.DataDir. End ctx only after the server has shut
// down, because otherwise the last requests are not counted. Call Run once. An error comes from closing
// Config.DataDir.
func (g *Gateway) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { g.recheck(ctx) })
	work.Go(func() { g.meter.run(ctx) })
	if g.cache != nil {
		if !g.cache.session.LastHeartbeat.IsZero() {
			work.Go(func() { g.serveOffline(ctx) })
		}
		work.Go(func() { g.cache.run(ctx, g.session, g.config.Now) })
	}
	err := g.member.Run(ctx, g.follow())
	work.Wait()
	g.probes.Wait()
	g.meter.flush()
	g.member.Close()
	if g.cache != nil {
		g.cache.notBefore = time.Time{}
		g.cache.save(g.session(), g.config.Now())
		err = errors.Join(err, g.cache.close())
	}
	g.cloud.close()
	if t, ok := g.transport.(*transports); ok {
		t.CloseIdleConnections()
	}
	return err
}

// Drain prepares a graceful shutdown, which would otherwise wait for polls and streams. It ends present and
// later polls, and the GET requests of the cloud API. It stops reading from streams: frames that were
// received are answered, and workers reconnect to another gateway. It may be called more than once.
func (g *Gateway) Drain() {
	why := unavailable("this gateway is shutting down: nothing was done, try again")
	g.inflight.drain(why)
	g.cloud.drain(why)
}

// take applies a document to future requests and to those under way.
func (g *Gateway) take(d fleet.Doc) error {
	g.directory.Put(d)
	if !d.IsPlacement() {
		g.inflight.checkOf(d, g.shutOut)
		return nil
	}
	g.first.take(d)
	if t, ok := g.transport.(*transports); ok {
		t.take(d)
	}
	g.inflight.check(d.Namespace, g.shutOut)
	return nil
}

// follow returns the configuration of the stream of documents.
func (g *Gateway) follow() fleet.Follow {
	f := fleet.Follow{OnDoc: g.take, OnNumber: g.heartbeat}
	if g.cache != nil {
		f.After, f.Keep = g.cache.catalogue.Number(), g.cache.buffer
	}
	return f
}

// heartbeat records that every document has come, and prompts the write of the session.
func (g *Gateway) heartbeat(number int64) {
	if !g.known.Swap(true) {
		g.log.Info("the gateway has all documents and serves requests", "document", number)
	}
	if g.cache != nil {
		g.cache.wake()
	}
}

// session returns the session to store; nil before the first heartbeat.
func (g *Gateway) session() *fleet.Session {
	s := g.member.Session()
	if s.LastHeartbeat.IsZero() {
		return nil
	}
	return &s
}

// recheck ends requests whose credential expires while they run, watches the hosts of requests that run long, and drops
// the rate limit buckets of idle keys, namespaces and organisations.
func (g *Gateway) recheck(ctx context.Context) {
	tick := time.NewTicker(RecheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.inflight.checkAll(g.shutOut)
			g.watchHosts(ctx)
			g.rates.forget(g.config.Now())
		case <-ctx.Done():
			return
		}
	}
}

// shutOut returns the reason why a running request must end, or nil.
func (g *Gateway) shutOut(p *inflightRequest) error {
	_, doc, err := g.directory.Authenticate(p.credential, p.hint, g.config.Now())
	if err == nil && doc.Namespace != p.namespace {
		err = api.Errorf(api.NotFound, "the namespace does not have that name any more")
	}
	return err
}

// openAPI serves the document of the tenants' routes, which needs no host.
func openAPI(w http.ResponseWriter, _ *http.Request) error {
	return serve.WriteJSON(w, http.StatusOK, json.RawMessage(spec.Node))
}

func (g *Gateway) healthz(w http.ResponseWriter, _ *http.Request) error {
	return serve.WriteJSON(w, http.StatusOK, api.Health{Status: "ok"})
}
