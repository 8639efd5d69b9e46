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

// The defaults of a Worker. DefaultDrainTimeout and what comes after it are together
// less than the 30 seconds that Kubernetes gives a pod.
const (
	DefaultConcurrency  = 10
	DefaultLease        = time.Minute
	DefaultDrainTimeout = 15 * time.Second
	DefaultHealthAddr   = ":9090"
)

const (
	// pollWait is how long the server waits for a job before it answers that there is none.
	pollWait = 30 * time.Second
	// beatEvery is how often leases are renewed; short ones at a third of their length.
	beatEvery = 15 * time.Second
	// returnGrace is how long handlers have to return once their contexts have ended at
	// the end of a drain, and settleGrace how long the last calls to the server may take.
	returnGrace = 5 * time.Second
	settleGrace = 5 * time.Second
	// mostFetched is how many jobs one fetch asks for.
	mostFetched = 512
	// anyQueue is the pattern of a handler for queues that have none of their own.
	anyQueue = "*"
)

// Why the context of a handler ended; context.Cause tells. A handler that returns
// ErrShutdown, also wrapped, gives its job back: another worker goes on from the
// checkpoint at once, and no attempt is counted.
var (
	ErrCancelled = errors.New("the server says to stop: the job was cancelled, or its lease is another's")
	ErrLeaseLost = errors.New("the lease is over: the server could not be reached for as long")
	ErrShutdown  = errors.New("worker_shutdown")
)

// Handler does a job. Where it returns nil the job is completed, or what the handler
// said of it with Job.Continue and Job.Hold; an error, or a panic, fails the attempt.
// Its context ends when the job is no longer the worker's: it should return then.
type Handler func(ctx context.Context, j *Job) error

// Worker fetches jobs and has handlers do them. Only Client is required; fields are set
// before Run.
type Worker struct {
	Client *Client

	// Queues are those it fetches from: a job of the first one that has some. Nil: those
	// that have handlers, in the order of their Handle.
	Queues       []string
	Concurrency  int           // jobs at once; 0 = DefaultConcurrency
	Lease        time.Duration // how long a job is the worker's without a heartbeat, in whole seconds; 0 = DefaultLease
	DrainTimeout time.Duration // how long running jobs may go on once Run's context has ended; 0 = DefaultDrainTimeout, less than 0 not at all
	ID           string        // worker_id; "" = made of the host's name
	Hostname     string        // "" = the host's
	// Stream has jobs come and acks go over one connection (see Stream) instead of a
	// request each. Where there is no way to the server for one it is as if it were not set.
	Stream bool
	// HealthAddr is where GET /healthz is answered while Run runs, such as
	// DefaultHealthAddr; "" = nowhere.
	HealthAddr string
	Logger     *slog.Logger         // nil = slog.Default()
	Tracer     trace.TracerProvider // nil = OpenTelemetry's global one

	handlers map[string]Handler
	order    []string // of Handle
	active   atomic.Pointer[run]
}

// WorkerFromEnv is a worker of what the environment says: CORVO_ENDPOINT (or CORVO_URL),
// CORVO_API_KEY, CORVO_QUEUES (with commas between), CORVO_CONCURRENCY and
// CORVO_HEALTH_ADDR. Only the endpoint has to be there.
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

// Handle has h do the jobs of a queue; "*" stands for all of Queues that have no handler
// of their own. It is called before Run.
func (w *Worker) Handle(queue string, h Handler) {
	if w.handlers == nil {
		w.handlers = map[string]Handler{}
	}
	if _, again := w.handlers[queue]; !again && queue != anyQueue {
		w.order = append(w.order, queue)
	}
	w.handlers[queue] = h
}

// Run works until ctx ends and then drains: it fetches no more, lets running jobs go on
// for DrainTimeout, ends the contexts of those left, saves their checkpoints and gives
// them back, and returns nil. It returns an error where it cannot work: it was set up
// wrongly, or the server refuses its fetches for good.
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
	r.group.Go(r.beats)
	err = r.fetches(ctx)
	r.drain()
	return err
}

// newRun checks what the worker is set to and fills in what is not said.
func (w *Worker) newRun(ctx context.Context) (*run, error) {
	if w.Client == nil {
		return nil, errors.New("worker: Client is nil")
	}
	r := &run{
		queues:   w.Queues,
		handlers: w.handlers,
		limit:    cmp.Or(w.Concurrency, DefaultConcurrency),
		lease:    cmp.Or(w.Lease, DefaultLease),
		patience: cmp.Or(w.DrainTimeout, DefaultDrainTimeout),
		id:       w.ID,
		hostname: w.Hostname,
		log:      cmp.Or(w.Logger, slog.Default()),
		jobs:     map[*Job]struct{}{},
		draining: make(chan struct{}),
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
		r.hostname, _ = os.Hostname() // not to know it is no reason not to work
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
	r.line = &polls{client: r.client, run: r}
	if w.Stream {
		r.line = newStreamed(r)
	}
	r.acks.send = func(items []ackItem) []error { return r.line.ack(r.calls, items) }
	return r, nil
}

// handler is that of a queue; nil where there is none.
func (r *run) handler(queue string) Handler {
	if h := r.handlers[queue]; h != nil {
		return h
	}
	return r.handlers[anyQueue]
}

// once is the client without its repeats: a worker knows better how long each is worth
// while, for it knows the leases.
func (c *Client) once() *Client {
	one := *c
	one.retries = 0
	return &one
}

// Health answers GET /healthz as a running worker does at HealthAddr. It does not speak
// of the server: a worker is not cured of a server's absence by being restarted.
func (w *Worker) Health() http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		status, code, running := "stopped", http.StatusServiceUnavailable, 0
		if r := w.active.Load(); r != nil {
			status, code, running = "ok", http.StatusOK, len(r.held())
			if r.drains() {
				status = "draining"
			}
		}
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(code)
		fmt.Fprintf(out, "{\"status\":%q,\"running\":%d}\n", status, running)
	})
}

// drains says whether the run takes no more jobs.
func (r *run) drains() bool {
	select {
	case <-r.draining:
		return true
	default:
		return false
	}
}

// held are the jobs that run, or are being settled.
func (r *run) held() []*Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Job, 0, len(r.jobs))
	for j := range r.jobs {
		all = append(all, j)
	}
	// One order for all: a heartbeat of too many jobs is cut into the same parts again.
	slices.SortFunc(all, func(a, b *Job) int { return cmp.Compare(a.JobID, b.JobID) })
	return all
}
