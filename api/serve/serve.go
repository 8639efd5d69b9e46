package serve

import (
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

// Config is what a server is made of.
type Config struct {
	Routes []Route

	// Authenticate says who sends a request, by its credential. It is called
	// for every route that is not Open, before anything of the body is read.
	// An error refuses the request.
	Authenticate func(*http.Request) (tenancy.Principal, error)

	// Tracer makes a span of every request, named by its method and route, a
	// child of the one its traceparent names; nil = none.
	Tracer trace.TracerProvider

	// Refused is told of every request that is answered with an error, before the
	// answer goes out: nil = nobody is. It must not block. The route is nil where
	// there is none.
	Refused func(r *http.Request, route *Route, who tenancy.Principal, err error)

	Logger      *slog.Logger    // nil = slog.Default()
	Metrics     *telemetry.HTTP // nil = measured for nobody
	MaxBody     int64           // bytes of a request's body; 0 = DefaultMaxBody
	BodyTimeout time.Duration   // in which a body must have arrived; 0 = DefaultBodyTimeout
}

// server is the handler New returns.
type server struct {
	mux         *http.ServeMux
	auth        func(*http.Request) (tenancy.Principal, error)
	refused     func(*http.Request, *Route, tenancy.Principal, error)
	log         *slog.Logger
	metrics     *telemetry.HTTP
	tracer      trace.Tracer // nil = no spans
	unmatched   *telemetry.Route
	bodyTimeout time.Duration
	conditional []Route // that take conditions
}

// New is the handler for a table of routes. It returns every fault of the
// table, joined.
//
// Requests the table has no route for are answered 404 or 405. Unlike a bare
// ServeMux it never redirects: a path with dot segments, doubled slashes or a
// slash too many or too few is 404, so that what one reads in a log or checks
// in a proxy is what is served.
func New(c Config) (http.Handler, error) {
	s := &server{
		mux:         http.NewServeMux(),
		auth:        c.Authenticate,
		refused:     c.Refused,
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

// add puts a route into the mux, whose panics at bad or conflicting patterns
// become errors.
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

// end closes the books on a request, panicking ones included.
func (s *server) end(c *call, r *http.Request) {
	p := recover()
	if !c.bodyTimed && hasBody(r) {
		// net/http reads what the handler left of the body before it sends the
		// answer, and would wait for it without end.
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

// endpoint is a route at work.
type endpoint struct {
	Route
	server  *server
	metrics *telemetry.Route
	looks   looks // at bodies, to warn about their fields
}

// ServeHTTP is called by the mux once it has matched a request to the route.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := w.(*response).call
	c.endpoint = e
	c.claimed = true
	c.matched(e)
	if err := e.serve(c, r); err != nil {
		c.refuse(r, err)
	}
	if c.status == 0 {
		// net/http would answer 200 by itself, without our headers.
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
