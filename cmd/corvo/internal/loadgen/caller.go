package loadgen

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
)

// A frame is what a client wants of the server in one exchange. Over a stream it is one
// frame; over HTTP the acks are sent, then the fetch, and beside those the enqueue.
type frame struct {
	queue   string
	enqueue []api.EnqueueRequest
	acks    []lease
	fetch   int
	wait    bool // for a first job, where there is none
}

// lease is a job that a client has fetched.
type lease struct {
	id, token string
	at        time.Duration // of its enqueue, in the run; before where it was enqueued before
}

// before is the time of what was enqueued before the run began.
const before = time.Duration(-1)

// answer is what became of a frame, as far as that is known.
type answer struct {
	enqueued int
	leased   []lease
	acked    int
	refused  []error // of single acks
}

// conn is one client's way to the server, for as many frames at once as the window has.
// An answer counts also beside an error, which may be of another part of the frame.
type conn interface {
	do(ctx context.Context, f frame) (answer, error)
	close()
}

// backlog is how many jobs of a queue Work has before it. A client takes from it what it
// is about to fetch, so that none asks an empty queue and waits.
type backlog struct{ left atomic.Int64 }

func (b *backlog) take(jobs int) int {
	before := b.left.Add(-int64(jobs)) + int64(jobs)
	taken := max(min(before, int64(jobs)), 0)
	b.left.Add(int64(jobs) - taken)
	return int(taken)
}

func (b *backlog) give(jobs int) { b.left.Add(int64(jobs)) }

// caller has a client's operations done one after another. A client has as many as its
// window.
type caller struct {
	*run
	queue    string
	left     *backlog
	conn     conn
	payloads *payloads
	jobsMade []api.EnqueueRequest
	held     []lease // fetched and not yet acknowledged

	operations Histogram // that worked
	lives      Histogram // of jobs, from enqueue to ack
	jobs       int64
	failed     int64
	filled     bool // its queue, by itself
	errors     failures
	end        time.Time // of the last operation that did something
}

// work has operations done until the pace has no more, or the backlog.
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
		// Queues with active jobs take longer to remove.
		c.conn.do(ctx, frame{queue: c.queue, acks: c.held})
	}
}

// operation has one done, and counts it.
func (c *caller) operation(ctx context.Context, at time.Time, jobs int) {
	measured := !at.Before(c.pace.from)
	a, err := c.workload(ctx, at, jobs)
	c.filled = c.filled || a.enqueued > 0
	now := time.Now()
	if ctx.Err() != nil {
		return // it was interrupted, which says nothing of the server
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

// count counts an operation.
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

// workload does what an operation consists of.
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
	if err == nil { // else they are lost: a backlog that cannot be fetched ends, too
		c.left.give(jobs - len(a.leased))
	}
	return a, err
}

// lifecycle enqueues, fetches and acknowledges in turn. Each client that fetches has
// enqueued as many, so there is always something for it.
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

// exchange has a frame done that acknowledges what is held, and holds what it leased.
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
	// What could not be acknowledged is not tried again: it has been counted.
	c.held = a.leased
	return a, err
}

// make is jobs that were to be enqueued at a time. They take the place of those before
// them, which are on their way in a form of their own.
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
