package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// DefaultProposeTimeout is how long a write waits for its commit.
const DefaultProposeTimeout = 10 * time.Second

// Config is what a server needs to know. The http.Server in front of it should
// set ReadHeaderTimeout, IdleTimeout and a WriteTimeout of twice job.MaxFetchWait,
// which cuts off clients that do not read their answers; a job on its way to one
// goes back to its queue. It should set no ReadTimeout: how long a body may take
// is limited here, per request.
type Config struct {
	Host      *host.Host
	Namespace tenancy.NamespaceID // whose keys open this server
	// Dev lets everybody in who reaches the server directly, with all rights.
	Dev            bool
	Version        string
	MaxPayload     int64         // bytes of a job's payload; 0 = job.MaxPayload
	ProposeTimeout time.Duration // 0 = DefaultProposeTimeout
	ReadWait       time.Duration // 0 = DefaultReadWait
	MinFreeDisk    int64         // bytes of disk below which the node is not ready; 0 = DefaultMinFreeDisk
	Logger         *slog.Logger
	Metrics        *telemetry.Registry // nil = one of its own
	Now            func() time.Time    // for the expiry of keys; nil = time.Now
}

// Server serves the routes of a node's table. It is an http.Handler.
type Server struct {
	cfg        Config
	handler    http.Handler
	openapi    []byte
	maxPayload int
	lastUsed   sync.Map // key id -> *atomic.Int64, Unix nanoseconds

	emptyFetches atomic.Uint64 // fetches that were logged and found nothing

	draining context.Context // ends when Drain is called
	drain    context.CancelFunc
}

// New makes the server of a namespace that cfg.Host has open. Its errors are
// mistakes in cfg or in the table of routes.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Host == nil || cfg.Namespace == "":
		return nil, errors.New("server: a host and a namespace are needed")
	case cfg.MaxPayload < 0 || cfg.MaxPayload > job.MaxPayloadFlag:
		return nil, fmt.Errorf("server: payloads of %d bytes: the most is from 1 to %d", cfg.MaxPayload, job.MaxPayloadFlag)
	case cfg.MaxPayload == 0:
		cfg.MaxPayload = job.MaxPayload
	}
	if cfg.ProposeTimeout == 0 {
		cfg.ProposeTimeout = DefaultProposeTimeout
	}
	if cfg.ReadWait == 0 {
		cfg.ReadWait = DefaultReadWait
	}
	if cfg.MinFreeDisk == 0 {
		cfg.MinFreeDisk = DefaultMinFreeDisk
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Metrics == nil {
		cfg.Metrics = telemetry.NewRegistry()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{cfg: cfg, maxPayload: int(cfg.MaxPayload)}
	s.draining, s.drain = context.WithCancel(context.Background())
	table := s.routes()
	var err error
	if s.openapi, err = document(table); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s.handler, err = serve.New(serve.Config{
		Routes:       table,
		Authenticate: s.authenticate,
		Logger:       cfg.Logger,
		Metrics:      telemetry.NewHTTP(cfg.Metrics),
		MaxBody:      bodyManage,
	})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	cfg.Metrics.Collect(s.measure, measured...)
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain ends the waiting fetches, now and from now on, and makes the node not
// ready, so that a graceful shutdown need not sit the polls out. Everything else
// is served as before. It may be called more than once.
func (s *Server) Drain() { s.drain() }

// request is what handlers start from: who asks, the cell that answers, and
// what a write carries of the caller.
type request struct {
	who  tenancy.Principal
	cell *cell.Cell
	meta *op.Meta
}

// begin reads the body of a request into v (nil: it has none) and finds its
// cell.
func (s *Server) begin(r *http.Request, v any) (request, error) {
	who := serve.Principal(r.Context())
	c, err := s.cfg.Host.Cell(who.Namespace)
	if err != nil {
		return request{}, err
	}
	idempotency, err := decode(r, v)
	if err != nil {
		return request{}, err
	}
	return request{who: who, cell: c, meta: &op.Meta{Principal: principalOf(who), Idempotency: idempotency}}, nil
}

// decode reads a body. Only a request with an Idempotency-Key needs a copy of
// it, for the hash.
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

// principalOf is who asked, as the log keeps it.
func principalOf(who tenancy.Principal) string {
	if who.KeyID != "" {
		return who.KeyID
	}
	return "open"
}

// allow asks for a right on each of the queues.
func (q *request) allow(what tenancy.Permission, queues ...string) error {
	for _, name := range queues {
		if err := tenancy.Allow(q.who, what, tenancy.Where{Namespace: q.who.Namespace, Queue: name}); err != nil {
			return err
		}
	}
	return nil
}

// sees says whether the caller's scope covers the job's queue. A job that does
// not exist is seen by everybody: whoever looks for it finds that out.
func (q *request) sees(id job.ID) (bool, error) {
	if len(q.who.QueueScope) == 0 {
		return true, nil
	}
	j, err := q.cell.State().Job(id)
	if err != nil {
		return false, err
	}
	return j == nil || q.who.Covers(j.Queue), nil
}

// commit proposes an op and puts its position on the answer.
func commit[R any](s *Server, w http.ResponseWriter, r *http.Request, c *cell.Cell, o pipeline.Op) (R, error) {
	result, at, err := propose[R](r.Context(), s, c, o)
	if err == nil {
		setIndex(w, at)
	}
	return result, err
}

// propose is cell.Propose within the time a write may take.
func propose[R any](ctx context.Context, s *Server, c *cell.Cell, o pipeline.Op) (R, cell.Index, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ProposeTimeout)
	defer cancel()
	return cell.Propose[R](ctx, c, o)
}
