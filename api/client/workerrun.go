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

// run is one Run of a worker.
type run struct {
	queues   []string
	handlers map[string]Handler
	limit    int
	lease    time.Duration
	patience time.Duration // of a drain
	id       string
	hostname string
	log      *slog.Logger
	client   *Client // without repeats of its own
	tracer   trace.Tracer
	line     line
	acks     acker

	calls    context.Context // of all calls but fetches; ends with the run
	stop     context.CancelFunc
	draining chan struct{}
	slots    chan struct{}  // one for each job more that may run
	group    sync.WaitGroup // of what ends with calls

	mu   sync.Mutex
	jobs map[*Job]struct{}
}

// line is a way to the server.
type line interface {
	// fetch waits for jobs, and leases some.
	fetch(ctx context.Context, count int) (fetched, error)
	// ack tells the ends of jobs, and answers one error for each.
	ack(ctx context.Context, items []ackItem) []error
	close()
}

// fetches has jobs come while ctx lasts. It returns an error where that has no hope.
func (r *run) fetches(ctx context.Context) error {
	for failures := 0; ; {
		free := r.free(ctx)
		if free == 0 {
			return nil
		}
		got, err := r.line.fetch(ctx, free)
		for range free - len(got.jobs) - len(got.unread) {
			r.slots <- struct{}{}
		}
		for i := range got.jobs {
			r.begin(ctx, got.jobs[i], nil, true)
		}
		for _, j := range got.unread {
			r.log.Error("worker: a job fails, for it cannot be read", "worker_id", r.id, "job_id", j.JobID, "error", j.err)
			r.begin(ctx, j.FetchedJob, j.err, true)
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
		case !passing(err):
			return fmt.Errorf("worker: fetch: %w", err)
		case failures == 0: // once, however long it lasts
			r.log.Warn("worker: no jobs can be fetched; it goes on trying", "worker_id", r.id, "error", err)
		}
		if r.client.sleep(ctx, backoff(failures, err)) != nil {
			return nil
		}
		failures++
	}
}

// free waits until a job more may run, and takes the slots that there are; 0 when ctx ends.
func (r *run) free(ctx context.Context) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case <-r.slots:
	}
	for n = 1; n < mostFetched; n++ {
		select {
		case <-r.slots:
		default:
			return n
		}
	}
	return n
}

// passing says whether a call that failed is worth a repeat: the network may come back,
// and so may a server. That the server does not want it does not pass.
func passing(err error) bool {
	var e *api.Error
	if !errors.As(err, &e) {
		return true
	}
	return e.Code.Retryable() || e.Code == api.Internal
}

// begin has a job done that has just been leased. In a drain it goes back, and so it does
// where it has no slot. One with a fault, which cannot be read, fails: it would be as
// unreadable the next time.
func (r *run) begin(ctx context.Context, fetched api.FetchedJob, fault error, slot bool) {
	lease := time.Duration(fetched.LeaseDuration) * time.Second
	j := &Job{FetchedJob: fetched, run: r, slot: slot, fault: fault, speaks: make(chan struct{}, 1), settled: make(chan struct{})}
	// The jobs outlive ctx, whose end begins the drain.
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
	go r.work(j, !slot || r.drains() || ctx.Err() != nil)
}

// work does a job and tells its end.
func (r *run) work(j *Job, giveBack bool) {
	defer func() {
		if j.giveSlot() {
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
	<-j.settled // in a drain another may tell its end
}

// panicked is the error of a handler that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// Unwrap is the value of a panic that was an error.
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
	j.ctx = ctx // what is told of the job's end is part of its trace
	j.mu.Unlock()
	return h(ctx, j)
}

// drain lets running jobs come to an end, in time or not.
func (r *run) drain() {
	close(r.draining)
	r.group.Go(r.sayDraining)
	left := r.await(r.limit, r.patience)
	if left == 0 {
		return
	}
	for _, j := range r.held() {
		j.cancel(ErrShutdown)
	}
	if left = r.await(left, returnGrace); left == 0 {
		return
	}
	// Handlers that do not return keep nobody from their jobs.
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

// await waits for the slots of running jobs, and says how many are still taken.
func (r *run) await(taken int, patience time.Duration) int {
	over := time.NewTimer(max(patience, 0))
	defer over.Stop()
	for ; taken > 0; taken-- {
		select { // jobs that have ended count, also where there is no patience
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

// close ends what belongs to the run, but for handlers that do not return.
func (r *run) close() {
	r.stop()
	r.line.close()
	r.group.Wait()
}
