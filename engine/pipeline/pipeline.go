// Package pipeline turns the proposals of many callers into log entries: it validates, admits and batches
// them, and hands each caller its own result. It owns the order of the work, its bounds and the entries'
// clock. It knows neither raft nor the meaning of any op, and may import api and engine/entry.
//
// Batching needs no timer. While one entry is in flight, new proposals queue up; once it is applied, the next
// entry takes as many of them as fit. So a lone caller never waits, and entries grow with the load. A timer
// was rejected because it delays the lone caller and has to be tuned to the disk.
//
// While an entry is in flight, another is appended only if the queued proposals fill it, because a full entry
// gains nothing by waiting: it is written while the one before is applied. Limits.InFlight bounds the entries
// in flight. Sending smaller entries ahead was rejected: two entries of half the size cost two syncs of the
// disk and two rounds of hand-offs, and with 32 callers each op waits longer by a third.
//
// A Pipeline lives for one term of leadership. Its first entry is Config.First, alone; no other op is
// appended before that entry was applied.
//
// Invariants: the backlog never exceeds its bounds; entries are appended one at a time and their clocks never
// fall; a caller gets exactly one answer; a proposal is in at most one entry, and a withdrawn one is in none.
package pipeline

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// Env lists everything that a Pipeline needs from outside. Raft and a simulator both provide it.
type Env struct {
	// Append hands an encoded entry to the log and returns without waiting for its commit. The Pipeline calls
	// it from one goroutine at a time, in the order of the entries' clocks.
	Append func(encoded []byte) Future
	// Now returns the host's time. Its monotonic part drives the entries' clock.
	Now func() time.Time
	// Rand is the source of the entries' seeds: crypto/rand.Reader except in simulations.
	Rand io.Reader
	// Level returns the feature level to write entries at.
	Level func() uint32
	// Tracer makes the spans of entries; nil makes none.
	Tracer Tracer
}

// Future waits for the result of one Append.
type Future interface {
	// Wait blocks until the entry was applied or is known to have failed. It returns the results in the order
	// of the entry's ops, and the entry's position. The error is an *api.Error that says whether the entry
	// may still be applied.
	Wait() ([]any, entry.Position, error)
}

// Config holds the parameters of Start.
type Config struct {
	Env
	Incarnation entry.Incarnation
	// LastClockNs is the clock of the newest entry in the log. The Pipeline's clock starts at LastClockNs or
	// at Now, whichever is later.
	LastClockNs int64
	// First is appended before all other ops, as an entry of its own; nil appends no such entry.
	First Op
	// Limits bounds the work. Zero fields take the package's defaults.
	Limits Limits
	// Admit may refuse an op before it enters the backlog; nil admits every op.
	Admit func(Op) error
	// Stats counts the work of this Pipeline; nil counts into a Stats that nobody reads.
	Stats *Stats
}

// Pipeline batches the proposals of one term. Its methods may be called from any goroutine.
type Pipeline struct {
	env         Env
	incarnation entry.Incarnation
	limits      Limits
	allow       func(Op) error // Config.Admit; nil admits every op
	stats       *Stats
	started     chan struct{} // closed once First was applied, or at once without a First
	done        chan struct{} // closed once the Pipeline was stopped and no entry is in flight
	pool        pool

	entryMu   sync.Mutex // guards builder and clock; held from encoding an entry until it is appended
	builder   entry.Builder
	clock     clock
	clockCopy atomic.Pointer[clock] // a copy of clock that ClockNs reads without a lock

	mu        sync.Mutex
	notEmpty  sync.Cond // the first append loop waits on it for any proposal; uses mu
	entryFull sync.Cond // the other append loops wait on it for a full entry; uses mu
	queue     queue
	stopped   error // the error that refuses new proposals; nil while they are accepted
	rate      rate
}

// Start starts a Pipeline. Stop or Drain ends it.
func Start(c Config) *Pipeline {
	p := &Pipeline{
		env:         c.Env,
		incarnation: c.Incarnation,
		limits:      c.Limits.WithDefaults(),
		allow:       c.Admit,
		stats:       c.Stats,
		started:     make(chan struct{}),
		done:        make(chan struct{}),
	}
	if p.stats == nil {
		p.stats = new(Stats)
	}
	p.notEmpty.L, p.entryFull.L = &p.mu, &p.mu
	p.clock.anchor(c.Now(), c.LastClockNs)
	p.publishClock()
	go p.run(c.First)
	return p
}

// run appends the first op and then runs the append loops until they return.
func (p *Pipeline) run(first Op) {
	defer close(p.done)
	if first != nil {
		if err := p.appendFirst(first); err != nil {
			p.Stop(err)
			return
		}
	}
	close(p.started)
	var loops sync.WaitGroup
	for i := range p.limits.InFlight {
		loops.Go(func() { p.appendLoop(i == 0) })
	}
	loops.Wait()
}

// ClockNs returns the clock that an entry encoded now would carry, in Unix nanoseconds. The machine treats
// every timer up to it as due.
func (p *Pipeline) ClockNs() int64 {
	c := *p.clockCopy.Load()
	return c.next(p.env.Now())
}

// publishClock copies the clock for ClockNs. The caller has just changed the clock and holds entryMu, or is
// Start.
func (p *Pipeline) publishClock() {
	c := p.clock
	p.clockCopy.Store(&c)
}

// Started returns a channel that is closed once the first op was applied, or at once without a first op. It
// stays open if the first op fails.
func (p *Pipeline) Started() <-chan struct{} { return p.started }

// Done returns a channel that is closed once the Pipeline was stopped and no entry is in flight.
func (p *Pipeline) Done() <-chan struct{} { return p.done }

// Err returns the error that refuses new proposals, or nil while they are accepted.
func (p *Pipeline) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// Propose waits until the op's entry was applied, and returns the op's result and the entry's position. The
// machine produced the result, which may be an error value. The error of Propose is an *api.Error: the error
// of the op's Validate or AdmitInOrder, PAYLOAD_TOO_LARGE above MaxOpBytes, the refusal of Config.Admit,
// OVERLOADED with RetryAfter if the backlog is full, INTERNAL if the op cannot be encoded, the error given to
// Stop or Drain, or the log's error. If ctx ends first, Propose returns OVERLOADED if the op was withdrawn,
// and an error that wraps ErrUnknown if it may still be applied.
func (p *Pipeline) Propose(ctx context.Context, op Op) (any, entry.Position, error) {
	return p.ProposeWithin(ctx, 0, op)
}

// ProposeWithin is like Propose, but treats the end of the time limit like the end of ctx; 0 sets no limit. A
// context with a deadline does the same, but costs an allocation for each op.
func (p *Pipeline) ProposeWithin(ctx context.Context, limit time.Duration, op Op) (any, entry.Position, error) {
	size, err := Check(op)
	if err != nil {
		return nil, entry.Position{}, err
	}
	if p.allow != nil {
		if err := p.allow(op); err != nil {
			return nil, entry.Position{}, err
		}
	}
	pr := p.pool.get(op, size)
	pr.proposed = p.env.Now()
	if p.env.Tracer != nil {
		pr.trace = p.env.Tracer.Of(ctx)
	}
	if b, ok := op.(OrderedOp); ok {
		err = b.AdmitInOrder(func() error { return p.admit(pr) })
	} else {
		err = p.admit(pr)
	}
	if err != nil {
		p.pool.put(pr)
		return nil, entry.Position{}, err
	}
	if err := p.await(ctx, limit, pr); err != nil {
		return nil, entry.Position{}, err
	}
	result, at, err := pr.result, pr.at, pr.err
	p.pool.put(pr)
	return result, at, err
}

// await returns nil once a proposal has its answer. If it returns an error, the caller must not use the
// proposal any more.
func (p *Pipeline) await(ctx context.Context, limit time.Duration, pr *proposal) error {
	var timedOut <-chan time.Time
	if limit > 0 {
		timedOut = pr.startTimer(limit)
	}
	var cause error
	select {
	case <-pr.answered:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-timedOut:
		cause = context.DeadlineExceeded
	}
	if timedOut != nil {
		pr.timer.Stop() // before another caller can reuse the proposal
	}
	if cause == nil {
		return nil
	}
	return p.abandon(pr, cause)
}

// ErrUnknown is wrapped by errors after which the op may have been applied, or may still be.
var ErrUnknown = errors.New("the outcome is unknown")

// Check validates an op and returns its encoded size.
func Check(op Op) (int, error) {
	if err := op.Validate(); err != nil {
		var refused *api.Error
		if errors.As(err, &refused) {
			return 0, refused
		}
		return 0, api.Errorf(api.ValidationError, "%w", err)
	}
	if op.Class() >= classes {
		return 0, api.Errorf(api.Internal, "op %d has no class", op.Number())
	}
	size := op.SizeVT()
	if size > MaxOpBytes {
		return 0, api.Errorf(api.PayloadTooLarge, "the request takes %d bytes in the log, the most is %d: split it", size, MaxOpBytes)
	}
	return size, nil
}

// admit puts a proposal into the backlog, or refuses it if the backlog is full or the Pipeline was stopped.
func (p *Pipeline) admit(pr *proposal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped != nil {
		return p.stopped
	}
	if !p.queue.fits(pr, &p.limits) {
		p.stats.Refused.Add(1)
		ops, bytes := p.queue.ops, p.queue.bytes
		full := api.Errorf(api.Overloaded, "%d requests (%d bytes) wait to be written: try again later", ops, bytes)
		full.RetryAfter = p.rate.drain(ops)
		return full
	}
	p.queue.push(pr)
	p.notEmpty.Signal()
	if p.queue.full(&p.limits) {
		p.entryFull.Signal()
	}
	return nil
}

// abandon withdraws a proposal that waits for an entry, and returns OVERLOADED. It returns nil if the answer
// has arrived in the meantime, and an error that wraps ErrUnknown if an entry with the proposal is being
// written.
func (p *Pipeline) abandon(pr *proposal, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pr.waiting {
		p.queue.remove(pr)
		p.pool.put(pr)
		return api.Wrap(cause, api.Overloaded, "the request ended before its turn came: it was withdrawn and nothing was written")
	}
	select {
	case <-pr.answered:
		return nil
	default:
		// The append loop that took the proposal still uses it, so it does not return to the pool.
		return api.Wrap(errors.Join(ErrUnknown, cause), api.LeaderUnavailable, "the request ended while it was being written: its outcome is unknown, repeat it with the same idempotency key")
	}
}

// Backlog returns the number of ops that wait to be put into an entry, and their bytes.
func (p *Pipeline) Backlog() (ops int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.ops, p.queue.bytes
}

// Stop refuses all waiting and all later proposals with err. Entries in flight keep their own outcome. Stop
// does not wait. Only the first call of Stop or Drain sets the error of later proposals.
func (p *Pipeline) Stop(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped == nil {
		p.stopped = err
	}
	for pr := range p.queue.all() {
		p.queue.remove(pr)
		pr.answer(nil, entry.Position{}, err)
	}
	p.notEmpty.Broadcast()
	p.entryFull.Broadcast()
}

// Drain refuses new proposals with err and waits until those already admitted have been answered. If ctx ends
// first, Drain refuses the waiting proposals with err and returns the cause of ctx.
func (p *Pipeline) Drain(ctx context.Context, err error) error {
	p.mu.Lock()
	if p.stopped == nil {
		p.stopped = err
	}
	p.notEmpty.Broadcast()
	p.entryFull.Broadcast()
	p.mu.Unlock()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.Stop(err)
		return context.Cause(ctx)
	}
}
