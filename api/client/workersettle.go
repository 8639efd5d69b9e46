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
	// leaseSlack is how much longer than the lease the end of a job is worth telling: the
	// server's clock began a little later than ours.
	leaseSlack = 5 * time.Second
	// The bounds of one batch of acks.
	ackBatchItems = 256
	ackBatchBytes = 1 << 20
	// What is told of an error, in bytes; the server takes no more.
	errorBytes     = 8 << 10
	backtraceBytes = 64 << 10
)

// settle tells how a job ended, and lets go of it.
func (r *run) settle(j *Job, err error) {
	if !j.claim() {
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
	// A heartbeat under way may carry usage: whether that is told is known first.
	ctx, cancel := context.WithDeadline(r.calls, j.leaseEnd().Add(leaseSlack))
	defer cancel()
	if e := j.take(ctx); e != nil {
		r.ended(j, "end", e)
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

// faulty is what was wrong with the job as it came, or with what the handler set.
func (j *Job) faulty() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fault
}

// complete acks a job. It returns an error where the attempt is to fail instead: the
// server will never take this ack.
func (r *run) complete(ctx context.Context, j *Job) error {
	if j.usages() > 1 { // an ack tells one
		_ = r.flush(ctx, j) // what is told of a job's end may get through all the same
	}
	last := j.told()
	j.mu.Lock()
	item := ackItem{job: j, ctx: j.ctx, AckItem: api.AckItem{JobID: j.JobID, AckRequest: j.outcome}}
	j.mu.Unlock()
	item.LeaseToken, item.WorkerID, item.Checkpoint = j.LeaseToken, r.id, last.checkpoint
	if len(last.usage) > 0 {
		item.Usage = &last.usage[0]
	}
	err := r.insist(ctx, func(ctx context.Context) error { return r.acks.do(ctx, item) })
	if code := api.CodeOf(err); errorsWithAck[code] {
		j.untold(last)
		return err
	}
	r.ended(j, "ack", err)
	return nil
}

// errorsWithAck are what is wrong with the ack itself. A result that does not match its
// schema is not among them: the server has failed the attempt.
var errorsWithAck = map[api.Code]bool{
	api.ValidationError: true, api.ParseError: true, api.PayloadTooLarge: true, api.Unsupported: true, api.CrossShard: true,
}

// usages is how many reports of usage have not been told.
func (j *Job) usages() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.report.usage)
}

// fail ends an attempt without success. What the next one needs is saved before.
func (r *run) fail(ctx context.Context, j *Job, err error) {
	j.mu.Lock()
	unsaved := j.report.checkpoint != nil || len(j.report.usage) > 1
	jobCtx := j.ctx
	j.mu.Unlock()
	if unsaved {
		_ = r.flush(ctx, j) // that the attempt has ended is worth telling all the same
	}
	last := j.told()
	req := api.FailRequest{LeaseToken: j.LeaseToken, WorkerID: r.id}
	req.Error, req.Backtrace = wordsOf(jobCtx, err)
	if len(last.usage) > 0 {
		req.Usage = &last.usage[0]
	}
	fail := func(ctx context.Context) error {
		_, err := r.client.Fail(withSpanOf(ctx, jobCtx), j.JobID, req)
		return err
	}
	failed := r.insist(ctx, fail)
	if code := api.CodeOf(failed); code == api.ValidationError && req.Usage != nil {
		req.Usage = nil // the attempt has to end, whatever it says to have used
		failed = r.insist(ctx, fail)
	}
	r.ended(j, "fail", failed)
}

// wordsOf is what the server is told of an error. After the worker's shutdown ended the
// context every error is its doing.
func wordsOf(ctx context.Context, err error) (text, backtrace string) {
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

// cut returns the beginning of a text in whole characters.
func cut(said string, bytes int) string {
	return text.Head(strings.ToValidUTF8(said, "\uFFFD"), bytes)
}

// ended logs what became of telling a job's end.
func (r *run) ended(j *Job, how string, err error) {
	if err == nil {
		return
	}
	r.log.Warn("worker: the end of a job could not be told", "worker_id", r.id, "queue", j.Queue, "job_id", j.JobID, "attempt", j.Attempt, "as", how, "error", err)
}

// insist calls f until it is answered for good, as long as ctx lasts. It may be called
// again whatever the outcome was, for the lease token tells the server what is a repeat.
func (r *run) insist(ctx context.Context, f func(context.Context) error) error {
	unsure := false
	for try := 0; ; try++ {
		err := f(ctx)
		if unsure && (api.CodeOf(err) == api.LeaseLost || api.CodeOf(err) == api.NotFound) {
			return nil // an earlier try has done it, and its answer was lost
		}
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		unsure = unsure || !again(err, false)
		if r.client.sleep(ctx, backoff(try, err)) != nil {
			return err
		}
	}
}

// ackItem is an ack with its job, and the context that its trace is taken from.
type ackItem struct {
	api.AckItem
	job *Job
	ctx context.Context
}

// acker gathers the acks that come while others are on their way: a lone one goes at
// once, many go together.
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

// do sends an ack and waits for its answer.
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

// run sends what waits until nothing does.
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

// next takes the acks that go together.
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

// polls are requests of their own for fetches and acks.
type polls struct {
	client *Client
	run    *run
}

func (p *polls) fetch(ctx context.Context, count int) (fetched, error) {
	wait := int(pollWait / time.Second)
	return p.client.fetchBatch(ctx, api.FetchBatchRequest{FetchRequest: p.run.asks(&wait), Count: &count})
}

// asks is what every fetch says.
func (r *run) asks(wait *int) api.FetchRequest {
	return api.FetchRequest{Queues: r.queues, WorkerID: r.id, Hostname: r.hostname, Timeout: wait, LeaseDuration: int(r.lease / time.Second), Concurrency: r.says()}
}

func (p *polls) ack(ctx context.Context, items []ackItem) []error {
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

func (p *polls) close() {}

// errorsOf are the errors of each of some acks; err is that of all.
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
