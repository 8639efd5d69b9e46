package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// Defaults of Config.
const (
	DefaultMaxBody     = 4 << 20 // bytes
	DefaultBodyTimeout = 30 * time.Second
)

// Config configures a server.
type Config struct {
	Routes []Route

	// Authenticate returns the caller of a request by its credential. It is called for every route that is not
	// Open, before the body is read. An error refuses the request. It may be nil if all routes are Open.
	Authenticate func(*http.Request) (tenancy.Principal, error)

	// Tracer makes a span for every request, named by method and route, as a child of the span in its
	// traceparent. nil = no spans.
	Tracer trace.TracerProvider

	// Refused is called for every request that ends with an error, except after a panic. The response may
	// have been sent in part by then. Refused must not block. route is nil if none matched. If Refused is
	// nil, it is not called.
	Refused func(r *http.Request, route *Route, who tenancy.Principal, err error)

	// Mark is called before the header of every response is sent and may add to it. refused is the code of a
	// refused request and else "". changed reports whether Changed was called for the request. ctx is the request's:
	// see Principal. nil = not called.
	Mark func(ctx context.Context, h http.Header, refused api.Code, changed bool)

	Logger      *slog.Logger    // nil = slog.Default()
	Metrics     *telemetry.HTTP // nil = a private registry
	MaxBody     int64           // largest request body in bytes, for routes without their own; 0 = DefaultMaxBody
	BodyTimeout time.Duration   // time for a body to arrive once the handler reads it; 0 = DefaultBodyTimeout
}

// server is the handler that New returns.
type server struct {
	mux         *http.ServeMux
	auth        func(*http.Request) (tenancy.Principal, error)
	refused     func(*http.Request, *Route, tenancy.Principal, error)
	mark        func(context.Context, http.Header, api.Code, bool)
	log         *slog.Logger
	metrics     *telemetry.HTTP
	tracer      trace.Tracer // nil = no spans
	unmatched   *telemetry.Route
	bodyTimeout time.Duration
	conditional []Route // routes with Conditions
}

// New returns the handler of a table of routes. It returns all faults of the table, joined.
//
// Requests without a route are answered with 404 or 405. Unlike a bare ServeMux the handler never redirects:
// a path with dot segments, doubled slashes, or a slash too many or too few is 404. So the path in a log, or
// in the rules of a proxy, is the path that is served.
func New(c Config) (http.Handler, error) {
	s := &server{
		mux:         http.NewServeMux(),
		auth:        c.Authenticate,
		refused:     c.Refused,
		mark:        c.Mark,
		log:         c.Logger,
		metrics:     c.Metrics,
		tracer:      telemetry.Tracer(c.Tracer),
		bodyTimeout: c.BodyTimeout,
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.metrics == nil {
		s.metrics = telemetry.NewHTTP(telemetry.NewRegistry())
	}
	if s.bodyTimeout == 0 {
		s.bodyTimeout = DefaultBodyTimeout
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	s.unmatched = s.metrics.Route("unmatched", "any")
	var faults []error
	if c.MaxBody < 0 || s.bodyTimeout < 0 {
		faults = append(faults, fmt.Errorf("MaxBody %d and BodyTimeout %v may not be negative", c.MaxBody, s.bodyTimeout))
	}
	for _, route := range c.Routes {
		if route.MaxBody == 0 {
			route.MaxBody = c.MaxBody
		}
		if err := s.add(route); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, nil
}

// add adds a route to the mux. Panics of the mux at bad or conflicting patterns become errors.
func (s *server) add(route Route) (err error) {
	if err := route.validate(); err != nil {
		return err
	}
	if route.Permission != Open && s.auth == nil {
		return fmt.Errorf("route %q needs a credential, and Config.Authenticate is nil", route.pattern())
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("route %q: %v", route.pattern(), p)
		}
	}()
	if len(route.Conditions) > 0 {
		s.conditional = append(s.conditional, route)
	}
	s.mux.Handle(route.pattern(), &endpoint{Route: route, server: s, metrics: s.metrics.Route(route.Path, route.Method)})
	return nil
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newCall(s, w, r)
	if s.tracer != nil {
		c.beginSpan(s.tracer, r)
	}
	s.metrics.Begin()
	defer s.end(c, r)
	r = r.WithContext(c)
	s.mux.ServeHTTP(&c.response, r)
	if c.endpoint == nil {
		c.refuse(r, c.unmatched(r))
	}
}

// end completes the response, the metrics and the span of a request, also after a panic.
func (s *server) end(c *call, r *http.Request) {
	p := recover()
	if !c.bodyTimed && hasBody(r) {
		// net/http reads the rest of the body before it sends the response, and without a deadline it
		// would wait for ever.
		c.bodyDeadline(time.Now().Add(s.bodyTimeout))
	}
	aborted := p == http.ErrAbortHandler
	if p != nil && !aborted {
		s.metrics.Panicked()
		c.logError("handler panicked", "panic", p, "stack", string(debug.Stack()))
		c.claimed = true
		aborted = c.status != 0
		if !aborted {
			e := api.Errorf(api.Internal, internalMessage, c.requestID())
			c.fault(e)
			c.answer(r, e)
		}
	}
	metrics := s.unmatched
	if c.endpoint != nil {
		metrics = c.endpoint.metrics
	}
	metrics.End(c.status, time.Since(c.start))
	c.endSpan(aborted)
	if aborted {
		panic(http.ErrAbortHandler)
	}
}

// endpoint is a route of a running server.
type endpoint struct {
	Route
	server  *server
	metrics *telemetry.Route
	checks  checkSampler // limits the checks of bodies for warnings
}

// ServeHTTP serves a request that the mux has matched to the route.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := w.(*response).call
	c.endpoint = e
	c.claimed = true
	c.matched(e)
	if err := e.serve(c, r); err != nil {
		c.refuse(r, err)
	}
	if c.status == 0 {
		// net/http would answer 200 itself, without our headers.
		c.WriteHeader(http.StatusOK)
	}
}

func (e *endpoint) serve(c *call, r *http.Request) error {
	if e.Permission != Open {
		who, err := e.server.auth(r)
		if err != nil {
			return err
		}
		c.principal = who
		if err := tenancy.Allow(who, e.Permission, tenancy.Where{Namespace: who.Namespace, Org: who.Org}); err != nil {
			return err
		}
	}
	if e.Strict {
		if err := e.checkQuery(r.URL.RawQuery); err != nil {
			return err
		}
	}
	if err := e.checkConditions(r); err != nil {
		return err
	}
	return e.Handler(&c.response, r)
}
