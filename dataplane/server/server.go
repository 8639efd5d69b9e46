package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/serve/about"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// DefaultProposeTimeout is the longest wait of a write for its commit.
const DefaultProposeTimeout = 10 * time.Second

// Config configures a server. The http.Server in front of it should set ReadHeaderTimeout, IdleTimeout and a
// WriteTimeout of twice job.MaxFetchWait. The WriteTimeout disconnects clients that do not read their
// answers; a job in such an answer returns to its queue, at the latest when its lease expires. The
// http.Server should set no ReadTimeout, because the server limits the time of a body per request.
type Config struct {
	Host *host.Host
	// Namespace is the namespace to serve, with the API keys in its store. It must be "" if, and only if,
	// Authenticator is set.
	Namespace tenancy.NamespaceID
	// If Authenticator is set, the server serves every namespace on the host, and Authenticator authenticates
	// each request. The server then manages no API keys. It shows tenants no figures of the whole host,
	// because these would count other tenants' namespaces.
	Authenticator Authenticator
	// Dev gives all permissions, without a key, to every request that reaches the server directly (see
	// checkDirect). Other requests are refused. New refuses Dev together with Authenticator.
	Dev     bool
	Version string
	// Cluster is the self-hosted cluster that this node is a member of; nil = none.
	Cluster Cluster
	// RaftStore is the log store that the status shows; "" means wal. RaftNoSync is whether that store leaves
	// syncing to the operating system.
	RaftStore      string
	RaftNoSync     bool
	MaxPayload     int64                // bytes of a job's payload, at most job.MaxPayload; 0 = job.DefaultMaxPayload
	ProposeTimeout time.Duration        // 0 = DefaultProposeTimeout
	ReadWait       time.Duration        // longest wait of a read for freshness; 0 = DefaultReadWait
	FreshWait      time.Duration        // longest wait of other reads for the view; 0 = DefaultFreshWait
	MaxBodies      int64                // bytes of request bodies in flight; 0 = DefaultMaxBodies
	MaxSearches    int                  // searches and lists at once; 0 = DefaultMaxSearches
	MinFreeDisk    int64                // bytes of free disk that a ready node must have; 0 = DefaultMinFreeDisk
	EventHeartbeat time.Duration        // interval of heartbeats on event streams; 0 = DefaultEventHeartbeat
	EventWriteWait time.Duration        // longest write on a stream; 0 = DefaultEventWriteWait
	EventRate      int64                // bytes per second for all event streams of a namespace together; 0 = job.MaxEventRate
	EventLag       int                  // events that an event stream may fall behind; 0 = job.MaxEventLag
	Limits         ratelimit.Limits     // rate limits; not applied with Dev or Authenticator
	MessageWait    time.Duration        // longest arrival of an RPC message; 0 = DefaultMessageWait
	NewKeyWait     time.Duration        // longest wait for a key that this node does not know; 0 = DefaultNewKeyWait
	StreamRate     int                  // frames per second of one worker stream; 0 = DefaultStreamRate
	StreamFrames   int                  // frames in progress at once, of all worker streams; 0 = DefaultStreamFrames
	MaxStreams     int                  // open worker streams; 0 = DefaultMaxStreams
	Tracer         trace.TracerProvider // nil = no traces
	Logger         *slog.Logger         // nil = slog.Default()
	Metrics        *telemetry.Registry  // nil = a new registry
	Certificate    *certificate.Holder  // of a host of the cloud, for its health; nil = it has none
	Now            func() time.Time     // for the expiry of keys, and for times in answers; nil = time.Now
}

// Authenticator authenticates the requests to all namespaces on a host.
type Authenticator interface {
	// Authenticate returns the sender of a request; the request may touch only the namespace of this
	// principal. The server calls Authenticate for every request that needs a credential, and again for polls
	// that wait and streams that run. An unknown key is refused. All errors are *api.Error.
	Authenticate(r *http.Request) (tenancy.Principal, error)
	// Used records that a request was authenticated with a key. It must not block.
	Used(keyID string, at time.Time)
	// Ready returns nil if keys can be checked, or else the reason that /readyz reports.
	Ready() error
}

// Server serves the HTTP API and the Worker RPC of a node or of a host of the cloud. It is an http.Handler.
type Server struct {
	cfg        Config
	handler    http.Handler
	openapi    []byte
	maxPayload int
	keyUses    keyUses
	limits     ratelimit.Limiter

	emptyFetches atomic.Uint64 // proposed fetches that found no job

	bodies   budget // bytes of request bodies in flight
	newKeys  budget // requests that wait for a key that this node does not know
	searches budget // running searches and lists

	streams budget        // open worker streams
	frames  chan struct{} // has one element for each frame in progress, of all worker streams
	shares  shares        // of namespaces, on a host of the cloud
	backing atomic.Bool   // a backup is being sent

	events      eventHubs // of namespaces whose events are streamed
	eventCounts eventCounts
	jobTotals   otherTotals // of queues without series of their own

	bulkStreams budget    // open progress streams of bulk operations
	requests    *requests // requests that no op recorded and that the audit log is to record

	draining context.Context // ends when Drain is called
	drain    context.CancelFunc
}

// New returns a server of cfg.Namespace, which cfg.Host has open. With cfg.Authenticator it serves all
// namespaces that cfg.Host has open or will open. An error means a mistake in cfg or in the route table. To
// shut the server down, call Drain, wait for the running requests, and call Close.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Host == nil || (cfg.Namespace == "") != (cfg.Authenticator != nil) || cfg.Authenticator != nil && cfg.Dev:
		return nil, errors.New("server: set Host and either Namespace or Authenticator, and Dev only with Namespace")
	case cfg.Limits.Check() != nil:
		return nil, fmt.Errorf("server: %w", cfg.Limits.Check())
	case cfg.MaxPayload < 0 || cfg.MaxPayload > job.MaxPayload:
		return nil, fmt.Errorf("server: payloads of %d bytes: the most is from 1 to %d", cfg.MaxPayload, job.MaxPayload)
	case cfg.MaxPayload == 0:
		cfg.MaxPayload = job.DefaultMaxPayload
	}
	cfg.ProposeTimeout = cmp.Or(cfg.ProposeTimeout, DefaultProposeTimeout)
	cfg.ReadWait = cmp.Or(cfg.ReadWait, DefaultReadWait)
	cfg.FreshWait = cmp.Or(cfg.FreshWait, DefaultFreshWait)
	cfg.RaftStore = cmp.Or(cfg.RaftStore, "wal")
	cfg.MaxBodies = cmp.Or(cfg.MaxBodies, DefaultMaxBodies)
	cfg.MaxSearches = cmp.Or(cfg.MaxSearches, DefaultMaxSearches)
	cfg.MinFreeDisk = cmp.Or(cfg.MinFreeDisk, DefaultMinFreeDisk)
	cfg.NewKeyWait = cmp.Or(cfg.NewKeyWait, DefaultNewKeyWait)
	cfg.EventHeartbeat = cmp.Or(cfg.EventHeartbeat, DefaultEventHeartbeat)
	cfg.EventWriteWait = cmp.Or(cfg.EventWriteWait, DefaultEventWriteWait)
	cfg.EventRate = cmp.Or(cfg.EventRate, job.MaxEventRate)
	cfg.EventLag = cmp.Or(cfg.EventLag, job.MaxEventLag)
	cfg.streamDefaults()
	if cfg.StreamRate < 0 || cfg.StreamFrames < 0 || cfg.MaxStreams < 0 {
		return nil, errors.New("server: bounds of streams may not be negative")
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Metrics == nil {
		cfg.Metrics = telemetry.NewRegistry()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{cfg: cfg, maxPayload: int(cfg.MaxPayload), limits: ratelimit.New(cfg.Limits)}
	s.bodies.most, s.searches.most, s.newKeys.most = cfg.MaxBodies, int64(cfg.MaxSearches), maxNewKeys
	s.events.of = map[tenancy.NamespaceID]*eventHub{}
	s.shares.of = map[tenancy.NamespaceID]*share{}
	s.bulkStreams.most = job.MaxBulkStreams
	s.streams.most, s.frames = int64(cfg.MaxStreams), make(chan struct{}, cfg.StreamFrames)
	s.requests = s.newRequests()
	s.draining, s.drain = context.WithCancel(context.Background())
	var err error
	if s.openapi, err = document(s.routes()); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s.handler, err = serve.New(serve.Config{
		Routes:       s.table(),
		Authenticate: s.authenticate,
		Refused:      s.onRefused,
		Mark:         s.markFor(),
		Tracer:       cfg.Tracer,
		Logger:       cfg.Logger,
		Metrics:      telemetry.NewHTTP(cfg.Metrics),
		MaxBody:      bodyManage,
	})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s.handler = about.Wrap(s.handler, s.site())
	cfg.Metrics.Collect(s.measure, measured...)
	return s, nil
}

// table returns the routes as they are served. While the handler of a route that needs a credential runs, the
// cells of the caller's namespace stay open, and the request's body counts against Config.MaxBodies. Requests
// to audited routes are recorded.
func (s *Server) table() []serve.Route {
	table := s.routes()
	for i, route := range table {
		if route.Permission != serve.Open && !route.Unbuilt {
			table[i].Handler = s.visiting(s.admitting(route))
			if whole(route) {
				table[i].Handler = unscoped(table[i].Handler)
			}
			if audits(route) {
				table[i].Handler = s.auditing(table[i].Handler)
			}
		}
		table[i].Audited, table[i].Strict = audits(route), !lenient(route)
	}
	for _, route := range s.procedures() {
		if route.Permission != serve.Open {
			route.Handler = s.visiting(route.Handler)
		}
		table = append(table, route)
	}
	return table
}

// lenient reports whether a route ignores unknown parameters and fields. Routes for workers and enqueues do,
// because old and new clients mix. Open routes and the routes that other vendors' tools call do too.
func lenient(route serve.Route) bool {
	switch route.Permission {
	case serve.Open, tenancy.JobEnqueue, tenancy.JobWork:
		return true
	}
	return route.Path == metricsPath || route.Path == scrapePath || route.Path == profilesPath
}

// whole reports whether a route concerns all queues: it administers the node, shows everything on the node,
// or sets values that all queues share. For routes that may concern one queue the handler decides.
func whole(route serve.Route) bool {
	return route.Permission == tenancy.NodeAdmin || route.Path == metricsPath || route.Path == scrapePath || route.Path == settingsPath && route.Method == http.MethodPut
}

// unscoped refuses callers with a queue scope.
func unscoped(h serve.Handler) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if who, route := serve.Called(r.Context()); len(who.QueueScope) > 0 {
			return api.Errorf(api.Forbidden, "%s %s is about all queues, and %s is for %v only: use a key without queue_scope", route.Method, route.Path, who, who.QueueScope)
		}
		return h(w, r)
	}
}

// visiting keeps the caller's namespace open while a handler runs. A host of the cloud refuses a namespace whose shards
// it has not caught up with, because it would answer by old data. A bare node's operator decides who asks it.
func (s *Server) visiting(h serve.Handler) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ns := serve.Principal(r.Context()).Namespace
		leave, err := s.cfg.Host.Visit(ns)
		if err != nil {
			return err
		}
		defer leave()
		if s.cloud() {
			if err := s.checkVotes(ns); err != nil {
				return err
			}
		}
		return h(w, r)
	}
}

// checkVotes returns LEADER_UNAVAILABLE if this host has no vote in a shard of a namespace, as far as it knows: the
// shard's leader has not added the host, the host still catches up, or the leader has removed it.
func (s *Server) checkVotes(ns tenancy.NamespaceID) error {
	cells, err := s.cfg.Host.Cells(ns)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if !c.Engine().Voter() {
			return again(api.Errorf(api.LeaderUnavailable, "this host is not yet, or no longer, a full member of the namespace's shard %d: nothing was done, try again", c.Shard()))
		}
	}
	return nil
}

// cloud reports whether this server is a host of the cloud.
func (s *Server) cloud() bool { return s.cfg.Authenticator != nil }

// site describes the server on its root page.
func (s *Server) site() about.Site {
	site := about.Site{
		Name: "Corvo node", Text: "A job queue. Producers and workers speak to it over HTTP; every route but these takes an API key.",
		Documents: []about.Document{about.APIDocument}, Start: about.StartAtAPI,
	}
	if s.cloud() {
		site.Name, site.Text = "Corvo cloud host", "It runs namespaces of a cloud. Tenants reach them through a gateway."
	}
	return site
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain ends the waiting fetches, the waits for bulk operations, the streams and a running backup, and from
// now on refuses them or ends them at once. So a graceful shutdown does not wait for them. Drain also makes
// the node not ready. Other requests are served as before. Drain may be called more than once.
func (s *Server) Drain() { s.drain() }

// request is the common input of handlers: the principal, the shards of the principal's namespace, and the
// metadata of the request's writes.
type request struct {
	who        tenancy.Principal
	shards     router.Shards
	meta       *op.Meta
	auditState *auditState // nil = not audited
	slot       *slot       // nil = its ops have no order among others
	// callerVersion is the version of the caller's key at the second check of its rights (authoriseAgain); 0
	// means that there was no second check or that there is no key.
	callerVersion uint64
}

// begin decodes the body of a request into v and finds the shards of the caller's namespace. If v is nil, the
// body must be empty or an object, and strict routes refuse any field in it; but the body of a GET or HEAD is
// ignored. On an audited route begin prepares the audit record. Before a write that needs the right to manage
// keys, it checks the caller's rights again.
func (s *Server) begin(r *http.Request, v any) (request, error) {
	who, route := serve.Called(r.Context())
	shards, err := router.Open(s.cfg.Host, who.Namespace)
	if err != nil {
		return request{}, err
	}
	if v == nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
		v = &struct{}{} // so that unexpected fields are refused and not ignored
	}
	idempotency, err := decode(r, v)
	if err != nil {
		return request{}, err
	}
	q := request{who: who, shards: shards, meta: &op.Meta{Principal: principalOf(who), Idempotency: idempotency}}
	if route != nil && route.Audited {
		q.audit(r, route, s.remote(r))
	}
	if route != nil && route.Permission == tenancy.KeyManage && route.Method != http.MethodGet {
		err = s.authoriseAgain(r, &q)
	}
	return q, err
}

// decode decodes a body and returns the request's idempotency key and hash, or nil without a key. Only a
// request with a key needs a copy of the body, for the hash.
func decode(r *http.Request, v any) (*op.Idempotency, error) {
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

// principalOf returns the log's text for a principal: the id of the principal's key, or "open".
func principalOf(who tenancy.Principal) string {
	if who.KeyID != "" {
		return who.KeyID
	}
	return "open"
}

// allow checks a permission on each of the queues. Without queues it checks nothing.
func (q *request) allow(what tenancy.Permission, queues ...string) error {
	for _, name := range queues {
		if err := tenancy.Allow(q.who, what, tenancy.Where{Namespace: q.who.Namespace, Queue: name}); err != nil {
			return err
		}
	}
	return nil
}

// commit proposes an op of a request by proposeOnce and sets the op's position in the answer's header.
func commit[R any](s *Server, w http.ResponseWriter, r *http.Request, q *request, c *cell.Cell, o op.Op) (R, error) {
	result, at, err := proposeOnce[R](s, r, q, c, o)
	if err == nil {
		setIndex(w, at)
	}
	return result, err
}

// commitHere is commit for an answer that is read from this node's store: it also waits until the store has the op.
func commitHere[R any](s *Server, w http.ResponseWriter, r *http.Request, q *request, c *cell.Cell, o op.Op) (R, error) {
	result, at, err := proposeOnce[R](s, r, q, c, o)
	if err != nil {
		return result, err
	}
	setIndex(w, at)
	return result, s.awaitOwn(r.Context(), q, at)
}

// propose calls cell.ProposeWithin with the timeout of a write, and adds a Retry-After to a retryable error.
// It does not look for the Idempotency-Key on other shards, because its callers have looked before or have no
// key.
func propose[R any](ctx context.Context, s *Server, c *cell.Cell, o op.Op) (R, cell.Index, error) {
	result, at, err := cell.ProposeWithin[R](ctx, s.cfg.ProposeTimeout, c, o)
	if err == nil || engine.Unknown(err) {
		serve.Changed(ctx)
	}
	return result, at, again(err)
}

// leaderRetry is the Retry-After of a retryable error that sets none, for example because there is no leader.
// It is about the duration of an election.
const leaderRetry = time.Second

// again adds a Retry-After to a retryable error that has none.
func again(err error) error {
	if err == nil {
		return nil
	}
	var e *api.Error
	if !errors.As(err, &e) || !e.Code.Retryable() || e.RetryAfter > 0 {
		return err
	}
	retry := *e
	retry.RetryAfter = leaderRetry
	return &retry
}
