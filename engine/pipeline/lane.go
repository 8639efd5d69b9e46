package pipeline

import (
	"io"
	"runtime"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// lane carries one entry at a time from the queue to its callers, until the
// Pipeline is stopped and the queue is empty. The first lane takes what there is;
// the others wait for full entries.
func (p *Pipeline) lane(first bool) {
	var batch []*proposal
	for {
		// The callers just answered propose again, mostly: let them run, so that
		// they go together and not one by one.
		runtime.Gosched()
		var under flight
		batch, under = p.next(batch[:0], first)
		if under.Future == nil {
			return
		}
		p.deliver(batch, under)
		clear(batch)
	}
}

// flight is an entry that was handed to the log.
type flight struct {
	Future
	appended time.Time
	span     Span // nil = none
}

// next waits for work and appends it as one entry. A nil Future means that there
// will be no more.
func (p *Pipeline) next(batch []*proposal, first bool) ([]*proposal, flight) {
	for {
		if batch = p.take(batch[:0], first); len(batch) == 0 {
			return nil, flight{}
		}
		p.forming.Lock()
		if batch = p.encode(batch); len(batch) == 0 {
			p.forming.Unlock()
			continue
		}
		defer p.forming.Unlock()
		now := p.env.Now()
		p.mu.Lock()
		p.rate.begin(now)
		p.mu.Unlock()
		for _, pr := range batch {
			p.stats.QueueTime.observe(now.Sub(pr.proposed))
		}
		out := flight{appended: now, span: p.trace(batch)}
		var trace entry.Trace
		if out.span != nil {
			trace = out.span.Trace()
		}
		out.Future = p.append(now, trace)
		return batch, out
	}
}

// take waits for a lane's work and takes it out of the queue; nothing when there
// will be no more.
func (p *Pipeline) take(batch []*proposal, first bool) []*proposal {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first {
		for p.queue.ops == 0 && p.stopped == nil {
			p.wake.Wait()
		}
	} else {
		for !p.queue.full(&p.limits) && p.stopped == nil {
			p.full.Wait()
		}
	}
	return p.queue.take(batch, &p.limits)
}

// encode writes the ops into the entry and keeps those that could be written.
func (p *Pipeline) encode(batch []*proposal) []*proposal {
	kept := batch[:0]
	for _, pr := range batch {
		if err := p.builder.Add(pr.op.Number(), int(pr.size), pr.op); err != nil {
			pr.answer(nil, entry.Position{}, api.Errorf(api.Internal, "the request cannot be written: %w", err))
			continue
		}
		kept = append(kept, pr)
	}
	return kept
}

// append closes the entry in the builder and hands it to the log.
func (p *Pipeline) append(now time.Time, trace entry.Trace) Future {
	h := entry.Header{Level: p.env.Level(), Incarnation: p.incarnation, ClockNs: p.clock.next(now), Trace: trace}
	p.publishClock()
	if _, err := io.ReadFull(p.env.Rand, h.Seed[:]); err != nil {
		p.builder.Finish(h) // dropped: without a seed the entry may not be written
		return failure{api.Wrap(err, api.Internal, "no random bytes to be had: nothing was written")}
	}
	return p.env.Append(p.builder.Finish(h))
}

// failure is the Future of an entry that was not appended.
type failure struct{ err error }

func (f failure) Wait() ([]any, entry.Position, error) { return nil, entry.Position{}, f.err }

// deliver waits for an entry and answers its proposals by position.
func (p *Pipeline) deliver(batch []*proposal, under flight) {
	results, at, err := under.Wait()
	if err == nil && len(results) != len(batch) {
		err = api.Errorf(api.Internal, "entry %d of %d ops had %d results", at.Index, len(batch), len(results))
	}
	if under.span != nil {
		under.span.End(at, err)
	}
	applied, now := len(batch), p.env.Now()
	if err != nil {
		applied = 0
	} else {
		p.stats.ApplyTime.observe(now.Sub(under.appended))
	}
	p.mu.Lock()
	p.rate.end(now, applied)
	p.mu.Unlock()
	for i, pr := range batch {
		if err != nil {
			pr.answer(nil, entry.Position{}, err)
		} else {
			pr.answer(results[i], at, nil)
		}
	}
}

// appendFirst writes the first op as an entry of its own and waits for it.
func (p *Pipeline) appendFirst(op Op) error {
	future, err := p.formFirst(op)
	if err != nil {
		return api.Errorf(api.Internal, "the term's first op: %w", err)
	}
	results, _, err := future.Wait()
	if err != nil {
		return err
	}
	if len(results) != 1 {
		return api.Errorf(api.Internal, "the term's first op had %d results", len(results))
	}
	if refused, ok := results[0].(error); ok {
		return api.Errorf(api.Internal, "the term's first op was refused: %w", refused)
	}
	return nil
}

func (p *Pipeline) formFirst(op Op) (Future, error) {
	if err := op.Validate(); err != nil {
		return nil, err
	}
	p.forming.Lock()
	defer p.forming.Unlock()
	if err := p.builder.Add(op.Number(), op.SizeVT(), op); err != nil {
		return nil, err
	}
	return p.append(p.env.Now(), entry.Trace{}), nil
}
