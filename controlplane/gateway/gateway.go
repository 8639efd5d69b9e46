// Package gateway is the front door of the cloud's data plane: it finds out whose
// a request is, by the documents it follows, and passes it on to the host of that
// namespace. It asks nobody while a request waits and stores only what it can fetch
// again, so there may be any number of gateways, and they go on while the control
// plane is away, restarts included. What a request may do, the host decides. Requests
// of the cloud API go to the control plane, which decides about them.
package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
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
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/serve/about"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/api/spec"
	"github.com/corvo/corvo/telemetry"
)

// The connections to hosts.
const (
	// IdleConnsPerHost are kept for the next request; more are closed when done.
	IdleConnsPerHost = 1024
	// DialTimeout is how long a host may take to accept a connection.
	DialTimeout = 5 * time.Second
	// idleTimeout is below that of hosts: who closes first is not surprised.
	idleTimeout = 30 * time.Second
)

// RecheckEvery is how often the credentials of requests under way are looked at
// again for their expiry. Whoever a document shuts out is told at once.
const RecheckEvery = time.Second

// RetryAfter is what a client is told to wait when its namespace cannot be reached.
const RetryAfter = time.Second

// DefaultAnswerWait is for how long a client may take nothing of an answer that has come.
const DefaultAnswerWait = 30 * time.Second

// Config is what a gateway is made of.
type Config struct {
	ControlPlane string // base URL
	Credential   string // of the gateway, cv_gw_...
	Version      string // of the binary
	// DataDir is where documents and session are kept, so that the gateway serves
	// after a restart while the control plane is away; "" = they are not.
	DataDir string

	Limits     ratelimit.Limits // rate limits of the gateway itself
	AnswerWait time.Duration    // 0 = DefaultAnswerWait

	HTTP      *http.Client         // to the control plane; nil = one of its own
	Transport http.RoundTripper    // to hosts; nil = two of its own
	Tracer    trace.TracerProvider // nil = no traces
	Metrics   *telemetry.Registry  // of this gateway alone; nil = measured for nobody
	Logger    *slog.Logger         // nil = slog.Default()
	Now       func() time.Time     // nil = time.Now
	Rand      io.Reader            // nil = crypto/rand
}

// Gateway is an http.Handler for the data plane's paths and for its own health.
// The http.Server in front of it has no ReadTimeout: streams are endless. Its WriteTimeout
// is for the gateway's own answers; what a host answers has as long as the client takes it.
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
	kept      *kept       // nil without Config.DataDir
	known     atomic.Bool // all documents there were have come, or are those of an earlier run
	flight    flight
	limits    ratelimit.Limiter
	keyRates  keyRates
	meter     *meter
	targets   sync.Map // address -> *url.URL
	failing   sync.Map // id of a host -> struct{}: it could not be reached last
}

// New makes a gateway that answers 503 until Run has heard of the namespaces, or
// serves by what Config.DataDir holds of an earlier run. It returns every fault of the configuration.
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
		if g.kept != nil {
			err = errors.Join(err, g.kept.close())
		}
		return nil, fmt.Errorf("gateway: %w", err)
	}
	return g, nil
}

// open makes what a gateway consists of.
func (g *Gateway) open() (err error) {
	c := g.config
	member := fleet.MemberConfig{
		ControlPlane: c.ControlPlane, Credential: c.Credential, Join: fleet.JoinRequest{Version: c.Version},
		HTTP: c.HTTP, Now: c.Now, Logger: c.Logger,
	}
	if c.DataDir != "" {
		var docs []fleet.Doc
		if g.kept, docs, err = openKept(c.DataDir, c.Credential, c.Now(), c.Logger); err != nil {
			return err
		}
		member.Trusted, member.Last = g.kept.catalogue.Trusted(), g.kept.session
		for _, d := range docs {
			g.directory.Put(d)
		}
	}
	if g.member, err = fleet.NewMember(member); err != nil {
		return err
	}
	if g.transport == nil {
		g.transport = newTransports()
	}
	if g.meter, err = newMeter(c.Rand, c.Now, g.member, g.directory, c.Logger); err != nil {
		return err
	}
	g.proxy = g.newProxy()
	if g.cloud, err = g.newCloud(); err != nil {
		return err
	}
	c.Metrics.Collect(g.measure, telemetry.GatewayDocumentsAge)
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

// newTransport has no time limit for an answer: a poll may take a minute, a stream
// for ever, and a client that has waited long enough leaves. No proxy either, for
// hosts are neighbours.
func newTransport(protocols *http.Protocols) *http.Transport {
	return &http.Transport{
		Protocols:             protocols,
		DialContext:           (&net.Dialer{Timeout: DialTimeout}).DialContext,
		TLSHandshakeTimeout:   DialTimeout,
		MaxIdleConnsPerHost:   IdleConnsPerHost,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // bodies pass as they are
	}
}

// routes are one catch-all for each method, open in the table because who may
// enter is found out by pass, before anything of the body is read.
func (g *Gateway) routes() []serve.Route {
	all := []serve.Route{
		{Method: http.MethodGet, Path: "/healthz", Permission: serve.Open, Handler: g.healthz},
		{Method: http.MethodGet, Path: "/readyz", Permission: serve.Open, Handler: g.readyz},
		{Method: http.MethodGet, Path: "/openapi.json", Permission: serve.Open, Handler: openAPI},
	}
	all = append(all, g.cloud.routes()...)
	// What a request depends on, the host judges.
	conditions := []string{serve.IfMatch, serve.IfNoneMatch}
	all = append(all, serve.Route{Method: http.MethodPost, Path: rpc.Prefix + "{procedure}", Permission: serve.Open, Handler: g.pass, Problem: rpc.Refuse, Conditions: conditions})
	all = append(all, serve.Route{Method: http.MethodGet, Path: "/metrics", Permission: serve.Open, Handler: g.pass, Conditions: conditions})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		all = append(all, serve.Route{Method: method, Path: "/api/v1/{path...}", Permission: serve.Open, Handler: g.pass, Conditions: conditions})
	}
	return all
}

func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// Run follows the documents and delivers usage until ctx ends, and then what usage
// there is left, for at most fleet.CallTimeout. End it after the server has shut
// down, or the last requests are not counted.
func (g *Gateway) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { g.recheck(ctx) })
	work.Go(func() { g.meter.run(ctx) })
	if g.kept != nil {
		if !g.kept.session.LastHeartbeat.IsZero() {
			work.Go(func() { g.remember(ctx) })
		}
		work.Go(func() { g.kept.run(ctx, g.session, g.config.Now) })
	}
	err := g.member.Run(ctx, g.follow())
	work.Wait()
	g.meter.flush()
	g.member.Close()
	if g.kept != nil {
		g.kept.notBefore = time.Time{}
		g.kept.save(g.session(), g.config.Now())
		err = errors.Join(err, g.kept.close())
	}
	g.cloud.close()
	if t, ok := g.transport.(*transports); ok {
		t.CloseIdleConnections()
	}
	return err
}

// Drain ends the polls that wait here, so that a graceful shutdown need not sit
// them out, and has streams take no more of their clients: what came is answered, and
// workers come again elsewhere. It may be called more than once.
func (g *Gateway) Drain() {
	why := unavailable("this gateway is shutting down: nothing was done, try again")
	g.flight.drain(why)
	g.cloud.drain(why)
}

// take makes a document count: for requests to come, and for those under way.
func (g *Gateway) take(d fleet.Doc) error {
	g.directory.Put(d)
	if t, ok := g.transport.(*transports); ok {
		t.take(d)
	}
	g.flight.check(d.Namespace, g.shutOut)
	return nil
}

// follow says from where the documents are followed, and what is done with them.
func (g *Gateway) follow() fleet.Follow {
	f := fleet.Follow{OnDoc: g.take, OnNumber: g.heartbeat}
	if g.kept != nil {
		f.After, f.Keep = g.kept.catalogue.Number(), g.kept.note
	}
	return f
}

// heartbeat notes that there was no document left to send.
func (g *Gateway) heartbeat(number int64) {
	if !g.known.Swap(true) {
		g.log.Info("the namespaces are known: letting requests in", "number", number)
	}
	if g.kept != nil {
		g.kept.wake()
	}
}

// session is what there is to keep of the control plane; nil before it was heard.
func (g *Gateway) session() *fleet.Session {
	s := g.member.Session()
	if s.LastHeartbeat.IsZero() {
		return nil
	}
	return &s
}

// recheck ends requests whose credential has expired under way.
func (g *Gateway) recheck(ctx context.Context) {
	tick := time.NewTicker(RecheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.flight.checkAll(g.shutOut)
			g.keyRates.forget(g.config.Now())
		case <-ctx.Done():
			return
		}
	}
}

// shutOut is why a request under way may not go on; nil when it may.
func (g *Gateway) shutOut(p *passage) error {
	_, doc, err := g.directory.Authenticate(p.credential, p.hint, g.config.Now())
	if err == nil && doc.Namespace != p.namespace {
		err = api.Errorf(api.NotFound, "the namespace is no longer the one of that name")
	}
	return err
}

// openAPI is what tenants can ask: their nodes' own document, which needs no node.
func openAPI(w http.ResponseWriter, _ *http.Request) error {
	return serve.WriteJSON(w, http.StatusOK, json.RawMessage(spec.Node))
}

func (g *Gateway) healthz(w http.ResponseWriter, _ *http.Request) error {
	return serve.WriteJSON(w, http.StatusOK, api.Health{Status: "ok"})
}
