package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

const (
	// leaseSlack is the time after a lease's end during which the worker still sends the attempt's outcome or
	// a report. The worker counts a renewed lease from the sending of the heartbeat, so the server's lease
	// ends a little later.
	leaseSlack = 5 * time.Second
	// These constants limit one batch of acks.
	ackBatchItems = 256
	ackBatchBytes = 1 << 20
	// These constants limit an error in bytes, as the server does.
	errorBytes     = 8 << 10
	backtraceBytes = 64 << 10
)

// settle reports the outcome of the attempt to the server and removes the job from the run. Only the first
// call for a job does so. Later calls return at once; j.settled is closed when the first has ended.
func (r *run) settle(j *Job, err error) {
	if !j.startSettling() {
		return
	}
	defer func() {
		j.cancel(nil)
		j.expiry.Stop()
		r.mu.Lock()
		delete(r.jobs, j)
		r.mu.Unlock()
		close(j.settled)
	}()
	// Wait for a heartbeat under way, because one without an answer puts its report back, and no report can
	// follow the outcome.
	ctx, cancel := context.WithDeadline(r.calls, j.leaseEnd().Add(leaseSlack))
	defer cancel()
	if e := j.acquire(ctx); e != nil {
		r.logSettle(j, "end", e)
		return
	}
	if err == nil {
		err = j.faulty()
	}
	if err == nil {
		err = r.complete(ctx, j)
	}
	if err != nil {
		r.fail(ctx, j, err)
	}
}

// faulty returns the fault of the fetched job or of a value that the handler set.
func (j *Job) faulty() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fault
}

// complete acks a job. It returns an error only if the ack itself is faulty (ackErrors), so that the attempt
// must fail. It logs any other error.
func (r *run) complete(ctx context.Context, j *Job) error {
	if j.needsHeartbeat() {
		_ = r.flush(ctx, j) // even if it fails, the ack may succeed; it carries at most one of the usage reports left, and the others are lost
	}
	last := j.takeReport()
	j.mu.Lock()
	item := ackItem{job: j, ctx: j.ctx, AckItem: api.AckItem{JobID: j.JobID, AckRequest: j.outcome}}
	j.mu.Unlock()
	item.LeaseToken, item.WorkerID, item.Checkpoint = j.LeaseToken, r.id, last.checkpoint
	item.Usage = last.settlingUsage()
	err := r.retry(ctx, func(ctx context.Context) error { return r.acks.do(ctx, item) })
	if code := api.CodeOf(err); ackErrors[code] {
		j.restoreReport(last)
		return err
	}
	r.logSettle(j, "ack", err)
	return nil
}

// ackErrors are the faults of an ack itself. RESULT_MISMATCH is not one of them, because the server has
// failed the attempt then.
var ackErrors = map[api.Code]bool{
	api.ValidationError: true, api.ParseError: true, api.PayloadTooLarge: true, api.Unsupported: true, api.CrossShard: true,
}

// usages returns the number of usage reports not sent yet.
func (j *Job) usages() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.report.usage)
}

// needsHeartbeat reports whether a heartbeat must carry the usage. An ack or a fail has room for one usage
// report but not for a report id, and without the id the server cannot recognise a repeat.
func (j *Job) needsHeartbeat() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.report.usage) > 1 || j.report.id != ""
}

// settlingUsage returns the usage for the end of an attempt. It returns nil for usage that a heartbeat may
// have delivered: the heartbeat and its repeats got no answer, and losing the usage is better than counting
// it twice.
func (r report) settlingUsage() *api.ReportedUsage {
	if len(r.usage) == 0 || r.id != "" {
		return nil
	}
	return &r.usage[0]
}

// fail ends an attempt without success. Before that it saves the checkpoint, and the usage for which the fail
// request has no room.
func (r *run) fail(ctx context.Context, j *Job, err error) {
	j.mu.Lock()
	unsaved := j.report.checkpoint != nil
	jobCtx := j.ctx
	j.mu.Unlock()
	if unsaved || j.needsHeartbeat() {
		_ = r.flush(ctx, j) // even if it fails, the attempt must end; the request carries at most one of the usage reports left, and the others are lost
	}
	last := j.takeReport()
	req := api.FailRequest{LeaseToken: j.LeaseToken, WorkerID: r.id, Usage: last.settlingUsage()}
	req.Error, req.Backtrace = failureText(jobCtx, err)
	fail := func(ctx context.Context) error {
		_, err := r.client.Fail(withSpanOf(ctx, jobCtx), j.JobID, req)
		return err
	}
	failed := r.retry(ctx, fail)
	if code := api.CodeOf(failed); code == api.ValidationError && req.Usage != nil {
		req.Usage = nil // the attempt must end even if its usage report is invalid
		failed = r.retry(ctx, fail)
	}
	r.logSettle(j, "fail", failed)
}

// failureText returns the texts of an error for the server. After the worker's shutdown has ended the
// context, every error except a panic counts as a consequence of the shutdown.
func failureText(ctx context.Context, err error) (text, backtrace string) {
	cause := context.Cause(ctx)
	var p *panicked
	switch {
	case errors.As(err, &p):
		backtrace = string(p.stack)
	case errors.Is(err, ErrShutdown), errors.Is(cause, ErrShutdown):
		return api.WorkerShutdown, ""
	case errors.Is(err, context.Canceled) && cause != nil && !errors.Is(cause, context.Canceled):
		return cut(cause.Error(), errorBytes), ""
	}
	return cut(err.Error(), errorBytes), cut(backtrace, backtraceBytes)
}

// cut returns the beginning of a text, in whole characters.
func cut(said string, bytes int) string {
	return text.Head(strings.ToValidUTF8(said, "\uFFFD"), bytes)
}

// logSettle logs a failure to settle a job.
func (r *run) logSettle(j *Job, how string, err error) {
	if err == nil {
		return
	}
	r.log.Warn("worker: the end of a job could not be told", "worker_id", r.id, "queue", j.Queue, "job_id", j.JobID, "attempt", j.Attempt, "as", how, "error", err)
}

// retry calls f until the outcome is final or ctx ends. It also returns nil if LEASE_LOST or NOT_FOUND
// follows a try of unknown outcome, because that try has probably succeeded. f must be safe to repeat: the
// server detects a repeated ack or fail by the lease token, and repeated usage by the report id.
func (r *run) retry(ctx context.Context, f func(context.Context) error) error {
	unsure := false
	for try := 0; ; try++ {
		err := f(ctx)
		if unsure && (api.CodeOf(err) == api.LeaseLost || api.CodeOf(err) == api.NotFound) {
			return nil // probably an earlier try succeeded and its response was lost
		}
		if err == nil || !transient(err) || ctx.Err() != nil {
			return err
		}
		unsure = unsure || !again(err, false)
		if r.client.sleep(ctx, backoff(try, err)) != nil {
			return err
		}
	}
}

// ackItem is an ack with its job and the context with its trace.
type ackItem struct {
	api.AckItem
	job *Job
	ctx context.Context
}

// acker collects acks while a request with earlier acks is under way, and then sends them together. It sends
// an ack at once if no request is under way.
type acker struct {
	send func([]ackItem) []error

	mu      sync.Mutex
	waiting []waitingAck
	busy    bool
}

type waitingAck struct {
	item ackItem
	done chan error
}

// do sends an ack and waits for the response. If ctx ends first, the ack may still be sent.
func (a *acker) do(ctx context.Context, item ackItem) error {
	w := waitingAck{item, make(chan error, 1)}
	a.mu.Lock()
	a.waiting = append(a.waiting, w)
	if !a.busy {
		a.busy = true
		go a.run()
	}
	a.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run sends the waiting acks until there are none.
func (a *acker) run() {
	for {
		batch := a.next()
		if len(batch) == 0 {
			return
		}
		items := make([]ackItem, len(batch))
		for i := range batch {
			items[i] = batch[i].item
		}
		for i, err := range a.send(items) {
			batch[i].done <- err
		}
	}
}

// next takes the acks for the next request.
func (a *acker) next() []waitingAck {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, bytes := 0, 0
	for n < len(a.waiting) && n < ackBatchItems {
		i := &a.waiting[n].item
		bytes += len(i.Result) + len(i.Checkpoint) + len(i.Trace)
		if n > 0 && bytes > ackBatchBytes {
			break
		}
		n++
	}
	batch := a.waiting[:n:n]
	a.waiting = a.waiting[n:]
	a.busy = n > 0
	return batch
}

// httpTransport sends a separate request for each fetch and each batch of acks.
type httpTransport struct {
	client *Client
	run    *run
}

func (p *httpTransport) fetch(ctx context.Context, count int) (fetched, error) {
	wait := int(pollWait / time.Second)
	return p.client.fetchBatch(ctx, api.FetchBatchRequest{FetchRequest: p.run.fetchRequest(&wait), Count: &count})
}

// fetchRequest returns the fields that all fetches have.
func (r *run) fetchRequest(wait *int) api.FetchRequest {
	return api.FetchRequest{Queues: r.queues, WorkerID: r.id, Hostname: r.hostname, Timeout: wait, LeaseDuration: int(r.lease / time.Second), Concurrency: r.reportedConcurrency()}
}

func (p *httpTransport) ack(ctx context.Context, items []ackItem) []error {
	if len(items) == 1 {
		return []error{p.client.Ack(withSpanOf(ctx, items[0].ctx), items[0].JobID, items[0].AckRequest)}
	}
	acks := make([]api.AckItem, len(items))
	for i := range items {
		acks[i] = items[i].AckItem
	}
	out, err := p.client.AckBatch(ctx, acks)
	return errorsOf(items, out.Errors, err)
}

func (p *httpTransport) close() {}

// errorsOf returns the error of each ack; err applies to all.
func errorsOf(items []ackItem, refused []api.ItemError, err error) []error {
	errs := make([]error, len(items))
	for i := range items {
		errs[i] = err
		for _, e := range refused {
			if err == nil && e.JobID == items[i].JobID {
				errs[i] = &api.Error{Code: e.Code, Message: e.Error, Details: e.Details}
			}
		}
	}
	return errs
}
