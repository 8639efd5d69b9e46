package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// These constants are the defaults of a Worker, except for DefaultHealthAddr, which is only the customary
// HealthAddr. DefaultDrainTimeout and the steps after it together take less than the 30 seconds that
// Kubernetes gives a pod.
const (
	DefaultConcurrency  = 10
	DefaultLease        = time.Minute
	DefaultDrainTimeout = 15 * time.Second
	DefaultHealthAddr   = ":9090"
)

const (
	// pollWait is the time that the server waits for a job.
	pollWait = 30 * time.Second
	// heartbeatEvery is the time between heartbeats. For a short lease it is a third of the lease.
	heartbeatEvery = 15 * time.Second
	// returnGrace is the time for handlers to return after the end of a drain has cancelled their
	// contexts. settleGrace is the time for the last calls to the server.
	returnGrace = 5 * time.Second
	settleGrace = 5 * time.Second
	// maxFetch is the largest number of jobs of one fetch.
	maxFetch = 512
	// anyQueue is the pattern of a handler for all queues without one of their own.
	anyQueue = "*"
)

// When the context of a running handler ends, context.Cause returns one of these. A handler that returns
// ErrShutdown, also wrapped, returns its job to the queue: another worker continues from the checkpoint at
// once, and the attempt does not count.
var (
	ErrCancelled = errors.New("the server says to stop: the job was cancelled, or its lease is another's")
	ErrLeaseLost = errors.New("the lease is over: the server could not be reached for as long")
	ErrShutdown  = errors.New("worker_shutdown")
)

// Handler runs a job. If it returns nil, the job is completed, or continues or is held after Job.Continue or
// Job.Hold. An error or a panic fails the attempt. ctx ends when the job is cancelled, when its lease is
// lost, or when the worker has drained for too long (see ErrCancelled); the handler should then return.
type Handler func(ctx context.Context, j *Job) error

// Worker fetches jobs and calls handlers for them. Only Client and a handler are required. Set the fields
// before Run.
type Worker struct {
	Client *Client

	// Queues are the queues to fetch from, at most 64, in their order: a fetch takes jobs of a later queue
	// only if the earlier ones have too few. Empty = the queues of Handle, in the order of the calls.
	Queues       []string
	Concurrency  int           // jobs at a time; 0 = DefaultConcurrency
	Lease        time.Duration // length of a lease without a heartbeat, in whole seconds up to 24h; 0 = DefaultLease
	DrainTimeout time.Duration // time for running jobs after the end of the context of Run; 0 = DefaultDrainTimeout, negative = none
	ID           string        // worker_id; "" = host name and a random suffix
	Hostname     string        // "" = the host name of the machine
	// Stream makes the worker ack and fetch over one connection (see Stream) instead of one request each.
	// If no stream to the server works, the worker uses requests.
	Stream bool
	// HealthAddr is the address for GET /healthz while Run runs, such as DefaultHealthAddr; "" = none.
	HealthAddr string
	Logger     *slog.Logger         // nil = slog.Default()
	Tracer     trace.TracerProvider // nil = OpenTelemetry's global one

	handlers map[string]Handler
	order    []string // of the calls of Handle
	active   atomic.Pointer[run]
}

// WorkerFromEnv returns a Worker configured by the environment: CORVO_ENDPOINT (or CORVO_URL),
// CORVO_API_KEY, CORVO_QUEUES (comma-separated), CORVO_CONCURRENCY and CORVO_HEALTH_ADDR. Only the
// endpoint is required.
func WorkerFromEnv(opts ...Option) (*Worker, error) {
	endpoint := cmp.Or(os.Getenv("CORVO_ENDPOINT"), os.Getenv("CORVO_URL"))
	if endpoint == "" {
		return nil, errors.New("worker: say in CORVO_ENDPOINT where the server is, such as http://127.0.0.1:8080")
	}
	c, err := New(endpoint, os.Getenv("CORVO_API_KEY"), opts...)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &Worker{Client: c, HealthAddr: os.Getenv("CORVO_HEALTH_ADDR")}
	for name := range strings.SplitSeq(os.Getenv("CORVO_QUEUES"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			w.Queues = append(w.Queues, name)
		}
	}
	if n := os.Getenv("CORVO_CONCURRENCY"); n != "" {
		if w.Concurrency, err = strconv.Atoi(n); err != nil || w.Concurrency < 1 {
			return nil, fmt.Errorf("worker: CORVO_CONCURRENCY is %q: want how many jobs to run at once, such as %d", n, DefaultConcurrency)
		}
	}
	return w, nil
}

// Handle sets the handler of a queue. "*" stands for all of Queues without a handler of their own. Call
// it before Run.
func (w *Worker) Handle(queue string, h Handler) {
	if w.handlers == nil {
		w.handlers = map[string]Handler{}
	}
	if _, again := w.handlers[queue]; !again && queue != anyQueue {
		w.order = append(w.order, queue)
	}
	w.handlers[queue] = h
}

// Run works until ctx ends, and then drains: it fetches no more jobs and lets running jobs continue for
// DrainTimeout. Then it cancels the contexts of the remaining jobs, saves their checkpoints, returns these
// jobs to their queues, and returns nil. It does not wait for a handler that does not return soon after its
// context has ended. Run returns an error if the worker is misconfigured or runs already, if it cannot listen
// at HealthAddr, or, after a drain, if the server permanently refuses its fetches.
func (w *Worker) Run(ctx context.Context) error {
	r, err := w.newRun(ctx)
	if err != nil {
		return err
	}
	if !w.active.CompareAndSwap(nil, r) {
		return errors.New("worker: it runs already")
	}
	defer w.active.Store(nil)
	closeHealth, err := w.serveHealth(r.log)
	if err != nil {
		return err
	}
	defer closeHealth()
	defer r.close()
	r.group.Go(r.heartbeatLoop)
	err = r.fetchLoop(ctx)
	r.drain()
	return err
}

// newRun checks the fields and applies the defaults.
func (w *Worker) newRun(ctx context.Context) (*run, error) {
	if w.Client == nil {
		return nil, errors.New("worker: Client is nil")
	}
	r := &run{
		queues:       w.Queues,
		handlers:     w.handlers,
		limit:        cmp.Or(w.Concurrency, DefaultConcurrency),
		lease:        cmp.Or(w.Lease, DefaultLease),
		drainTimeout: cmp.Or(w.DrainTimeout, DefaultDrainTimeout),
		id:           w.ID,
		hostname:     w.Hostname,
		log:          cmp.Or(w.Logger, slog.Default()),
		jobs:         map[*Job]struct{}{},
		draining:     make(chan struct{}),
	}
	if len(r.queues) == 0 {
		r.queues = w.order
	}
	if len(r.queues) == 0 {
		return nil, errors.New("worker: it has no queues: give it some with Handle, or Queues")
	}
	for _, queue := range r.queues {
		if r.handler(queue) == nil {
			return nil, fmt.Errorf("worker: queue %q has no handler: add one with Handle(%q, ...), or one for all queues with Handle(%q, ...)", queue, queue, anyQueue)
		}
	}
	switch {
	case r.limit < 1:
		return nil, fmt.Errorf("worker: Concurrency is %d: want at least 1", r.limit)
	case r.lease < time.Second || r.lease%time.Second != 0:
		return nil, fmt.Errorf("worker: Lease is %v: want whole seconds, at least one", r.lease)
	}
	if r.hostname == "" {
		r.hostname, _ = os.Hostname() // a worker can work without it
	}
	if r.id == "" {
		r.id = cmp.Or(r.hostname, "worker") + "-" + strings.ToLower(rand.Text()[:8])
	}
	r.client = w.Client.once()
	r.tracer = tracerOf(w.Tracer)
	r.calls, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.slots = make(chan struct{}, r.limit)
	for range r.limit {
		r.slots <- struct{}{}
	}
	r.transport = &httpTransport{client: r.client, run: r}
	if w.Stream {
		r.transport = newStreamTransport(r)
	}
	r.acks.send = func(items []ackItem) []error { return r.transport.ack(r.calls, items) }
	return r, nil
}

// handler returns the handler of a queue, or nil.
func (r *run) handler(queue string) Handler {
	if h := r.handlers[queue]; h != nil {
		return h
	}
	return r.handlers[anyQueue]
}

// once returns the client without retries, because the worker knows the leases and so retries itself.
func (c *Client) once() *Client {
	one := *c
	one.retries = 0
	return &one
}

// Health returns the handler of GET /healthz. It answers 200 while Run runs, also during the drain, and 503
// before and after. It does not report whether the server can be reached, because a restart of the worker
// would not help.
func (w *Worker) Health() http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		status, code, running := "stopped", http.StatusServiceUnavailable, 0
		if r := w.active.Load(); r != nil {
			status, code, running = "ok", http.StatusOK, len(r.held())
			if r.isDraining() {
				status = "draining"
			}
		}
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(code)
		fmt.Fprintf(out, "{\"status\":%q,\"running\":%d}\n", status, running)
	})
}

// isDraining reports whether the run fetches no more jobs.
func (r *run) isDraining() bool {
	select {
	case <-r.draining:
		return true
	default:
		return false
	}
}

// held returns the jobs that run or are being settled.
func (r *run) held() []*Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Job, 0, len(r.jobs))
	for j := range r.jobs {
		all = append(all, j)
	}
	// Always the same order, so that a heartbeat of too many jobs is split in the same way each time.
	slices.SortFunc(all, func(a, b *Job) int { return cmp.Compare(a.JobID, b.JobID) })
	return all
}
