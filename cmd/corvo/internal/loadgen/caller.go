package loadgen

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
)

// A frame holds a client's requests of one exchange. A stream sends it as one frame. Over HTTP the client
// sends the acks, then the fetch, and the enqueue in parallel to both.
type frame struct {
	queue   string
	enqueue []api.EnqueueRequest
	acks    []lease
	fetch   int
	wait    bool // the fetch waits for a first job if the queue has none
}

// lease is a job that a client has fetched.
type lease struct {
	id, token string
	at        time.Duration // when it was enqueued, since the base of the run; before = earlier than the run
}

// before marks a job that was enqueued before the run began.
const before = time.Duration(-1)

// answer is the known outcome of a frame.
type answer struct {
	enqueued int
	leased   []lease
	acked    int
	refused  []error // errors of single acks
}

// conn is one client's connection to the server. It carries as many frames at once as the window allows. An
// answer counts even beside an error, because the error may concern another part of the frame.
type conn interface {
	do(ctx context.Context, f frame) (answer, error)
	close()
}

// backlog counts the jobs that a queue of the workload Work still has. A client takes jobs from the backlog
// before it fetches them, so that no client asks an empty queue and waits.
type backlog struct{ left atomic.Int64 }

func (b *backlog) take(jobs int) int {
	before := b.left.Add(-int64(jobs)) + int64(jobs)
	taken := max(min(before, int64(jobs)), 0)
	b.left.Add(int64(jobs) - taken)
	return int(taken)
}

func (b *backlog) give(jobs int) { b.left.Add(int64(jobs)) }

// caller runs operations of a client one after another. A client has as many callers as its window.
type caller struct {
	*run
	queue    string
	left     *backlog
	conn     conn
	payloads *payloads
	jobsMade []api.EnqueueRequest
	held     []lease // fetched and not yet acknowledged

	operations Histogram // successful ones
	lives      Histogram // of jobs, from enqueue to ack
	jobs       int64
	failed     int64
	filled     bool // an enqueue of this caller put jobs into its queue
	errors     failures
	end        time.Time // of the last operation that did something
}

// work runs operations until the pace or the backlog has no more.
func (c *caller) work(ctx, stop context.Context) {
	for {
		at, jobs := c.pace.next(stop)
		if c.Workload == Work && jobs > 0 {
			jobs = c.left.take(jobs)
		}
		if jobs == 0 && (c.Workload != Work || len(c.held) == 0 || stop.Err() != nil) {
			break
		}
		c.operation(ctx, at, jobs)
	}
	if len(c.held) > 0 {
		// Ack the held jobs, because queues with active jobs take longer to remove.
		c.conn.do(ctx, frame{queue: c.queue, acks: c.held})
	}
}

// operation runs one operation and counts it.
func (c *caller) operation(ctx context.Context, at time.Time, jobs int) {
	measured := !at.Before(c.pace.from)
	a, err := c.workload(ctx, at, jobs)
	c.filled = c.filled || a.enqueued > 0
	now := time.Now()
	if ctx.Err() != nil {
		return // an interrupted operation says nothing about the server
	}
	did := a.acked
	if c.Workload == Enqueue {
		did = a.enqueued
	}
	if measured {
		c.count(a, err, did, now.Sub(at))
		if did > 0 || err != nil {
			c.end = now
		}
	}
	if err != nil && c.pace.rate == 0 {
		pause(ctx, min(max(retryAfter(err), pauseAfterError), mostPause))
	}
}

// count adds an operation's errors, jobs and latency to the caller's counts.
func (c *caller) count(a answer, err error, did int, took time.Duration) {
	for _, e := range a.refused {
		c.errors.add(e)
	}
	if err != nil {
		c.errors.add(err)
	}
	c.jobs += int64(did)
	switch {
	case err != nil || len(a.refused) > 0:
		c.failed++
	case a.enqueued+a.acked+len(a.leased) > 0:
		c.operations.Record(took)
	}
}

// workload runs one operation of the configured workload.
func (c *caller) workload(ctx context.Context, at time.Time, jobs int) (answer, error) {
	f := frame{queue: c.queue}
	switch c.Workload {
	case Enqueue:
		f.enqueue = c.make(at, jobs)
		return c.conn.do(ctx, f)
	case Lifecycle:
		return c.lifecycle(ctx, at, jobs)
	case Steady:
		f.enqueue, f.acks, f.fetch = c.make(at, jobs), c.held, jobs
		return c.exchange(ctx, f)
	}
	f.acks, f.fetch, f.wait = c.held, jobs, true
	a, err := c.exchange(ctx, f)
	if err == nil { // after an error the jobs stay taken, so that a backlog that cannot be fetched ends too
		c.left.give(jobs - len(a.leased))
	}
	return a, err
}

// lifecycle enqueues, fetches and acknowledges in turn. A caller fetches only as many jobs as it has
// enqueued, so that a fetch finds a job at once, unless an answer was lost earlier.
func (c *caller) lifecycle(ctx context.Context, at time.Time, jobs int) (answer, error) {
	whole, err := c.conn.do(ctx, frame{queue: c.queue, enqueue: c.make(at, jobs)})
	if err != nil {
		return whole, err
	}
	fetched, err := c.conn.do(ctx, frame{queue: c.queue, fetch: jobs, wait: true})
	if err != nil {
		return whole, err
	}
	c.held = fetched.leased
	acked, err := c.exchange(ctx, frame{queue: c.queue, acks: c.held})
	whole.acked, whole.refused = acked.acked, acked.refused
	return whole, err
}

// exchange sends a frame that acknowledges the held jobs, then holds the jobs that the frame leased.
func (c *caller) exchange(ctx context.Context, f frame) (answer, error) {
	a, err := c.conn.do(ctx, f)
	if a.acked == len(f.acks) {
		life := time.Since(c.base)
		for _, l := range f.acks {
			if l.at >= c.pace.from.Sub(c.base) {
				c.lives.Record(life - l.at)
			}
		}
	}
	// exchange drops a job whose ack failed, because the failure has been counted.
	c.held = a.leased
	return a, err
}

// make returns jobs whose enqueue was intended at a time. It overwrites the jobs of its last call, because
// the SDK has encoded those by then.
func (c *caller) make(at time.Time, jobs int) []api.EnqueueRequest {
	if cap(c.jobsMade) < jobs {
		c.jobsMade = make([]api.EnqueueRequest, jobs)
	}
	all := c.jobsMade[:jobs]
	for i := range all {
		all[i].Queue, all[i].Payload = c.queue, c.payloads.next(all[i].Payload, at.Sub(c.base))
	}
	return all
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
