package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/serve/about"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/reconcile"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// DefaultProposeTimeout bounds how long a write waits for its commit, if Config.ProposeTimeout is 0.
const DefaultProposeTimeout = 10 * time.Second

// maxBody bounds the body of a request of the cloud API, in bytes.
const maxBody = 256 << 10

// Config configures a server. Store, Observations, Reconciler, Signer and Authority are required. The
// http.Server in front of it should set ReadHeaderTimeout and IdleTimeout but no ReadTimeout. A WriteTimeout
// must exceed MaxOperationWait. Streams set deadlines of their own.
type Config struct {
	Store        *store.Store
	Observations *reconcile.Observations
	Reconciler   *reconcile.Reconciler
	Signer       *Signer
	Authority    *Authority
	Cluster      Cluster // of the control plane's processes; nil = this process is alone
	Endpoint     string  // base URL of the namespaces' data planes
	Version      string

	ProposeTimeout time.Duration        // 0 = DefaultProposeTimeout
	Now            func() time.Time     // nil = time.Now
	Rand           io.Reader            // nil = crypto/rand
	Tracer         trace.TracerProvider // nil = no traces
	Certificate    *certificate.Holder  // of this process, for its health; nil = it has none
	Metrics        *telemetry.Registry  // nil = a registry of the server's own
	Logger         *slog.Logger         // nil = slog.Default()
}

// Server serves the routes of the control plane. It is an http.Handler.
type Server struct {
	cfg      Config
	store    *store.Store
	handler  http.Handler
	openapi  []byte
	plans    *billing.PlanBook
	lastUsed lastUsed
	refusals *refusals

	draining context.Context // ends when Drain is called
	drain    context.CancelFunc
	mu       sync.Mutex // held while a stream begins, and while Drain ends draining
	streams  sync.WaitGroup
}

// New builds a server. It fails if a required field of cfg is nil or the table of routes is wrong.
func New(cfg Config) (*Server, error) {
	if cfg.Store == nil || cfg.Observations == nil || cfg.Reconciler == nil || cfg.Signer == nil || cfg.Authority == nil {
		return nil, errors.New("server: a store, observations, a reconciler, a signer and an authority are needed")
	}
	if cfg.ProposeTimeout == 0 {
		cfg.ProposeTimeout = DefaultProposeTimeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	if cfg.Metrics == nil {
		cfg.Metrics = telemetry.NewRegistry()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{cfg: cfg, store: cfg.Store}
	s.lastUsed.exists = func(id string) bool { _, ok := s.store.Credential(id); return ok }
	s.draining, s.drain = context.WithCancel(context.Background())
	s.refusals = s.newRefusals()
	cfg.Metrics.Collect(s.measure, telemetry.CertificateRemaining, telemetry.UsageAsideFrames, telemetry.UsageAsideBytes, telemetry.ForeignNamespaces)
	table := s.table()
	var err error
	if s.plans, err = billing.ShippedPlans(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if s.openapi, err = document(table); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s.handler, err = serve.New(serve.Config{
		Routes:       table,
		Authenticate: s.authenticate,
		Refused:      s.onRefused,
		Tracer:       cfg.Tracer,
		Logger:       cfg.Logger,
		Metrics:      telemetry.NewHTTP(cfg.Metrics),
		MaxBody:      maxBody,
	})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s.handler = about.Wrap(s.handler, about.Site{
		Name: "Corvo control plane", Text: "It owns organisations, namespaces and keys. Jobs are enqueued and fetched at a gateway.",
		Documents: []about.Document{about.CloudDocument}, Start: "GET /cloud/v1/orgs with Authorization: Bearer TOKEN",
	})
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain ends the streams of documents and the waits for operations, refuses new streams, and makes the server
// report that it is not ready. It returns when the streams are closed. All other requests are served as
// before. Drain may be called more than once.
func (s *Server) Drain() {
	s.mu.Lock()
	s.drain()
	s.mu.Unlock()
	s.streams.Wait()
}

// measure reports the remaining life of the certificate, the usage set aside, and how many namespaces have
// groups open that are not their own.
func (s *Server) measure(to *telemetry.Scrape) {
	if held := s.cfg.Certificate; held != nil {
		to.Gauge(telemetry.CertificateRemaining, held.Remaining().Seconds())
	}
	to.Gauge(telemetry.ForeignNamespaces, float64(s.cfg.Reconciler.Foreign()))
	aside, err := s.store.AsideTotals(context.Background())
	if err != nil {
		s.cfg.Logger.Error("the metrics of the usage set aside are missing in a scrape", "error", err)
		return
	}
	to.Gauge(telemetry.UsageAsideFrames, float64(aside.Frames))
	to.Gauge(telemetry.UsageAsideBytes, float64(aside.Bytes))
}

// request is an HTTP request with its principal and the metadata that a write's op carries.
type request struct {
	*http.Request
	who  tenancy.Principal
	meta *store.Meta
}

// begin reads the body of a request into v, and the Idempotency-Key. If v is nil, begin ignores the body of a
// GET or HEAD, and any other request must have no body or an empty object.
func (s *Server) begin(r *http.Request, v any) (request, error) {
	q := request{Request: r, who: serve.Principal(r.Context())}
	if v == nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
		v = &struct{}{} // refuses unknown fields instead of ignoring the body
	}
	key, err := decode(r, v)
	q.meta = &store.Meta{Principal: q.who.KeyID, Trace: telemetry.Traceparent(r.Context()), Idempotency: key}
	return q, err
}

// decode reads a body. It copies the body only for a request with an Idempotency-Key, because only that needs
// a hash.
func decode(r *http.Request, v any) (*store.Idempotency, error) {
	if r.Header[idempotencyHeader] == nil {
		if v == nil {
			return nil, nil
		}
		return nil, serve.DecodeJSON(r, v)
	}
	body, err := serve.ReadBody(r)
	if err != nil {
		return nil, err
	}
	key, err := idempotency(r, body)
	if err != nil || v == nil {
		return key, err
	}
	return key, serve.Decode(r, body, v)
}

// allowed reports whether the caller has a permission in an organisation.
func (q request) allowed(what tenancy.Permission, org tenancy.OrgID) bool {
	return tenancy.Allow(q.who, what, tenancy.Where{Org: org}) == nil
}

// operates reports whether the caller acts for the whole cloud and not for an organisation.
func (q request) operates() bool { return q.who.Org == tenancy.EveryOrg }

// propose calls store.Propose with ProposeTimeout as the time limit.
func propose[R any](ctx context.Context, s *Server, o store.Op) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ProposeTimeout)
	defer cancel()
	return store.Propose[R](ctx, s.store, o)
}
