package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
)

// run is one call of Worker.Run.
type run struct {
	queues       []string
	handlers     map[string]Handler
	limit        int
	lease        time.Duration
	drainTimeout time.Duration
	id           string
	hostname     string
	log          *slog.Logger
	client       *Client // without retries
	tracer       trace.Tracer
	transport    transport
	acks         acker

	calls    context.Context // of all calls except fetches; ends with the run
	stop     context.CancelFunc
	draining chan struct{}
	slots    chan struct{}  // one for each further job that may run
	group    sync.WaitGroup // of the goroutines that end with calls

	mu   sync.Mutex
	jobs map[*Job]struct{}
}

// transport sends fetches and acks to the server.
type transport interface {
	// fetch waits for jobs and leases up to count of them.
	fetch(ctx context.Context, count int) (fetched, error)
	// ack sends acks and returns an error for each.
	ack(ctx context.Context, items []ackItem) []error
	close()
}

// fetchLoop fetches jobs while ctx lasts. It returns an error if the server refuses a fetch and would refuse
// it again.
func (r *run) fetchLoop(ctx context.Context) error {
	for failures := 0; ; {
		free := r.freeSlots(ctx)
		if free == 0 {
			return nil
		}
		got, err := r.transport.fetch(ctx, free)
		for range free - len(got.jobs) - len(got.unread) {
			r.slots <- struct{}{}
		}
		for i := range got.jobs {
			r.start(ctx, got.jobs[i], nil, true)
		}
		for _, j := range got.unread {
			r.log.Error("worker: a job fails, for it cannot be read", "worker_id", r.id, "job_id", j.JobID, "error", j.err)
			r.start(ctx, j.FetchedJob, j.err, true)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if failures > 0 {
				r.log.Info("worker: jobs can be fetched again", "worker_id", r.id)
			}
			failures = 0
			continue
		case !transient(err):
			return fmt.Errorf("worker: fetch: %w", err)
		case failures == 0: // logged once, however long it lasts
			r.log.Warn("worker: no jobs can be fetched; it goes on trying", "worker_id", r.id, "error", err)
		}
		if r.client.sleep(ctx, backoff(failures, err)) != nil {
			return nil
		}
		failures++
	}
}

// freeSlots waits for a free slot and takes all free ones, up to maxFetch. It returns 0 when ctx ends.
func (r *run) freeSlots(ctx context.Context) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case <-r.slots:
	}
	for n = 1; n < maxFetch; n++ {
		select {
		case <-r.slots:
		default:
			return n
		}
	}
	return n
}

// transient reports whether a failed call may succeed later, because of the network or the state of the
// server.
func transient(err error) bool {
	var e *api.Error
	if !errors.As(err, &e) {
		return true
	}
	return e.Code.Retryable() || e.Code == api.Internal
}

// start starts a job that was just leased. During a drain, or without a slot, the job returns to its queue. A
// job with a fault, because it cannot be decoded, fails: the next attempt could not decode it either.
func (r *run) start(ctx context.Context, fetched api.FetchedJob, fault error, slot bool) {
	lease := time.Duration(fetched.LeaseDuration) * time.Second
	j := &Job{FetchedJob: fetched, run: r, slot: slot, fault: fault, reporting: make(chan struct{}, 1), settled: make(chan struct{})}
	// Jobs outlive ctx, because its end starts the drain.
	j.ctx, j.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	j.mu.Lock()
	j.until = time.Now().Add(lease)
	j.expiry = time.AfterFunc(lease, j.lose)
	j.mu.Unlock()
	r.mu.Lock()
	for other := range r.jobs {
		if other.JobID == j.JobID { // an attempt that the server has given up
			go other.lose()
		}
	}
	r.jobs[j] = struct{}{}
	r.mu.Unlock()
	go r.work(j, !slot || r.isDraining() || ctx.Err() != nil)
}

// work runs a job and settles it.
func (r *run) work(j *Job, giveBack bool) {
	defer func() {
		if j.takeSlot() {
			r.slots <- struct{}{}
		}
	}()
	err := j.faulty()
	switch {
	case giveBack:
		err = ErrShutdown
	case err == nil:
		err = r.handle(j)
	}
	r.settle(j, err)
	<-j.settled // during a drain another goroutine may settle it
}

// panicked is the error of a handler that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// Unwrap returns the value of the panic if it was an error.
func (p *panicked) Unwrap() error { err, _ := p.value.(error); return err }

// handle calls the handler.
func (r *run) handle(j *Job) (err error) {
	ctx, span := beginProcess(j.ctx, r.tracer, j)
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
		endProcess(span, err)
	}()
	h := r.handler(j.Queue)
	if h == nil {
		return fmt.Errorf("the worker has no handler for queue %q", j.Queue)
	}
	j.mu.Lock()
	j.ctx = ctx // the calls at the end of the job belong to its trace
	j.mu.Unlock()
	return h(ctx, j)
}

// drain waits for the running jobs and returns the remaining ones to their queues.
func (r *run) drain() {
	close(r.draining)
	r.group.Go(r.announceDraining)
	left := r.await(r.limit, r.drainTimeout)
	if left == 0 {
		return
	}
	for _, j := range r.held() {
		j.cancel(ErrShutdown)
	}
	if left = r.await(left, returnGrace); left == 0 {
		return
	}
	// A handler that does not return must not keep its job.
	jobs := r.held()
	for _, j := range jobs {
		r.log.Warn("worker: a handler did not return when its context ended; its job goes back all the same",
			"worker_id", r.id, "queue", j.Queue, "job_id", j.JobID)
		go r.settle(j, ErrShutdown)
	}
	over := time.NewTimer(settleGrace)
	defer over.Stop()
	for _, j := range jobs {
		select {
		case <-j.settled:
		case <-over.C:
			return
		}
	}
}

// await waits until the running jobs have freed `taken` slots, or until wait is over. It returns the number
// of slots that are still taken.
func (r *run) await(taken int, wait time.Duration) int {
	over := time.NewTimer(max(wait, 0))
	defer over.Stop()
	for ; taken > 0; taken-- {
		select { // first without waiting, so that ended jobs count even if wait is 0
		case <-r.slots:
			continue
		default:
		}
		select {
		case <-r.slots:
		case <-over.C:
			return taken
		}
	}
	return 0
}

// close ends everything of the run, except handlers that do not return.
func (r *run) close() {
	r.stop()
	r.transport.close()
	r.group.Wait()
}
