// Package pipeline turns proposals of many callers into log entries: it
// validates, admits, batches, and hands each caller its own result. It owns the
// order of work, its bounds and the entries' clock. It knows neither raft nor any
// op by name, and may import api and engine/entry.
//
// Batching needs no timer. While an entry is on its way, proposals gather, and
// when it returns all that gathered goes as the next. So a lone caller never
// waits, and the busier the log the larger the entries. A timer was rejected: it
// delays the lone caller and has to be tuned to the disk.
//
// What gathers goes before that only as a full entry, which can grow no more: it
// is written while the one before is applied, up to MaxInFlight of them. To send
// smaller ones ahead was rejected: two of half the size cost two syncs of the
// disk and two rounds of hand-offs, and each op waits longer, by a third with 32
// callers.
//
// A Pipeline lives for one term of leadership. Its first entry is Config.First,
// alone; no other op is appended before that one was applied.
//
// Invariants: the backlog never exceeds its bounds; entries are appended one at a
// time and their clocks never fall; a proposal gets exactly one answer; it is
// either withdrawn before it is in an entry, or it is in exactly one.
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

// Env is all a Pipeline needs from the world. Raft and a simulator both fit.
type Env struct {
	// Append hands an encoded entry to the log and returns without waiting for
	// its commit. Calls come one at a time, in the order of the entries' clocks.
	Append func(encoded []byte) Future
	// Now is the host's time; its monotonic part drives the entries' clock.
	Now func() time.Time
	// Rand is where seeds come from: crypto/rand.Reader outside of simulations.
	Rand io.Reader
	// Level is the feature level to write entries at.
	Level func() uint32
	// Tracer follows ops that belong to a trace; nil = none does.
	Tracer Tracer
}

// Future is the outcome of one Append.
type Future interface {
	// Wait blocks until the entry was applied, and answers one result for each op
	// by position; or until it is known to fail. The error is an *api.Error that
	// says whether the entry may still be applied.
	Wait() ([]any, entry.Position, error)
}

// Config is what a Pipeline is made of.
type Config struct {
	Env
	Incarnation entry.Incarnation
	// LastClockNs is the clock of the newest entry in the log. The Pipeline starts
	// at the later of it and Now.
	LastClockNs int64
	// First goes before all others, as an entry of its own; nil = none.
	First Op
	// Limits bounds the work; zero fields have the package's defaults.
	Limits Limits
	// Admit may refuse an op before it is let into the backlog; nil = it does not.
	Admit func(Op) error
	// Stats is counted into; nil = nobody asks.
	Stats *Stats
}

// Pipeline batches the proposals of one term. Its methods may be called from
// any goroutine.
type Pipeline struct {
	env         Env
	incarnation entry.Incarnation
	limits      Limits
	allow       func(Op) error // nil: everything
	stats       *Stats
	started     chan struct{} // closed when First was applied
	done        chan struct{} // closed when no entry is in flight and none will be
	pool        pool

	forming sync.Mutex // held from writing an entry's ops until it is appended
	builder entry.Builder
	clock   clock
	stamped atomic.Pointer[clock] // a copy of clock, for ClockNs

	mu      sync.Mutex
	wake    sync.Cond // the first lane waits on it for work; uses mu
	full    sync.Cond // the other lanes wait on it for an entry's worth of work; uses mu
	queue   queue
	stopped error // why new proposals are refused; nil while they are not
	rate    rate
}

// Start opens a Pipeline. It ends by Stop or Drain.
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
	p.wake.L, p.full.L = &p.mu, &p.mu
	p.clock.anchor(c.Now(), c.LastClockNs)
	p.publishClock()
	go p.run(c.First)
	return p
}

// run appends the first op and then keeps the lanes going until they end.
func (p *Pipeline) run(first Op) {
	defer close(p.done)
	if first != nil {
		if err := p.appendFirst(first); err != nil {
			p.Stop(err)
			return
		}
	}
	close(p.started)
	var lanes sync.WaitGroup
	for i := range p.limits.InFlight {
		lanes.Go(func() { p.lane(i == 0) })
	}
	lanes.Wait()
}

// ClockNs is the clock an entry made now would be stamped with, in Unix
// nanoseconds: what is due by it is due for the machine.
func (p *Pipeline) ClockNs() int64 {
	c := *p.stamped.Load()
	return c.next(p.env.Now())
}

// publishClock is called after each change of clock, by whoever may change it.
func (p *Pipeline) publishClock() {
	c := p.clock
	p.stamped.Store(&c)
}

// Started is closed once the first op was applied.
func (p *Pipeline) Started() <-chan struct{} { return p.started }

// Done is closed once the Pipeline was stopped and nothing is in flight.
func (p *Pipeline) Done() <-chan struct{} { return p.done }

// Err is why proposals are refused; nil while they are not.
func (p *Pipeline) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// Propose answers the op's result and the position of its entry once the entry
// was applied. The result is what the machine returned, which may be an error
// value. Errors are *api.Error: the op's own when it is not valid,
// PAYLOAD_TOO_LARGE above MaxOpBytes, what Config.Admit refuses it with, OVERLOADED with RetryAfter when the backlog
// is full, what Stop was given, or what the log answered. When ctx ends first,
// the error says whether the op was withdrawn or may still be applied.
func (p *Pipeline) Propose(ctx context.Context, op Op) (any, entry.Position, error) {
	return p.ProposeWithin(ctx, 0, op)
}

// ProposeWithin is Propose that gives up after a time as it does when ctx ends; 0 =
// never. A context with a deadline says the same, and has to be made for each op.
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
	if b, ok := op.(Boarder); ok {
		err = b.Board(func() error { return p.admit(pr) })
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

// await returns nil once a proposal has its answer. After an error it is no longer the
// caller's.
func (p *Pipeline) await(ctx context.Context, limit time.Duration, pr *proposal) error {
	var over <-chan time.Time
	if limit > 0 {
		over = pr.alarm(limit)
	}
	var cause error
	select {
	case <-pr.answered:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-over:
		cause = context.DeadlineExceeded
	}
	if over != nil {
		pr.timer.Stop() // before somebody else may have the proposal
	}
	if cause == nil {
		return nil
	}
	return p.abandon(pr, cause)
}

// ErrUnknown is the cause of errors after which the op may have been applied, or
// still be.
var ErrUnknown = errors.New("the outcome is unknown")

// Check validates an op and answers its encoded size.
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

// admit puts a proposal into the backlog, or refuses it.
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
	p.wake.Signal()
	if p.queue.full(&p.limits) {
		p.full.Signal()
	}
	return nil
}

// abandon gives a proposal up. It returns nil when the answer had come meanwhile.
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
		// The proposal now belongs to the lane that has it: it is not used again.
		return api.Wrap(errors.Join(ErrUnknown, cause), api.LeaderUnavailable, "the request ended while it was being written: its outcome is unknown, repeat it with the same idempotency key")
	}
}

// Backlog is how many ops, and bytes of them, wait to be put into an entry.
func (p *Pipeline) Backlog() (ops int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.ops, p.queue.bytes
}

// Stop refuses all proposals from now on, and those that wait, with err. Entries
// in flight keep their own outcome. It does not wait; only the first call of Stop
// and Drain decides the error of later proposals.
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
	p.wake.Broadcast()
	p.full.Broadcast()
}

// Drain refuses new proposals with err and waits until those admitted before are
// answered. When ctx ends first, those that still wait are refused with err, and
// ctx's cause is returned.
func (p *Pipeline) Drain(ctx context.Context, err error) error {
	p.mu.Lock()
	if p.stopped == nil {
		p.stopped = err
	}
	p.wake.Broadcast()
	p.full.Broadcast()
	p.mu.Unlock()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.Stop(err)
		return context.Cause(ctx)
	}
}
