package pipeline

import (
	"io"
	"runtime"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// appendLoop appends one entry at a time and hands its results to the callers, until the Pipeline is stopped
// and the queue is empty. The first loop takes any waiting proposals; the others wait until a full entry is
// queued.
func (p *Pipeline) appendLoop(first bool) {
	var batch []*proposal
	for {
		// Most callers that were just answered propose again. Let them run, so that their next proposals
		// share an entry.
		runtime.Gosched()
		var sent inflight
		batch, sent = p.next(batch[:0], first)
		if sent.Future == nil {
			return
		}
		p.deliver(batch, sent)
		clear(batch)
	}
}

// inflight is an entry that was handed to the log.
type inflight struct {
	Future
	appended time.Time
	span     Span // nil = none
}

// next waits for proposals and appends them as one entry. A nil Future means that the Pipeline has ended.
func (p *Pipeline) next(batch []*proposal, first bool) ([]*proposal, inflight) {
	for {
		if batch = p.take(batch[:0], first); len(batch) == 0 {
			return nil, inflight{}
		}
		p.entryMu.Lock()
		if batch = p.encode(batch); len(batch) == 0 {
			p.entryMu.Unlock()
			continue
		}
		defer p.entryMu.Unlock()
		now := p.env.Now()
		p.mu.Lock()
		p.rate.begin(now)
		p.mu.Unlock()
		for _, pr := range batch {
			p.stats.QueueTime.observe(now.Sub(pr.proposed))
		}
		out := inflight{appended: now, span: p.trace(batch)}
		var trace entry.Trace
		if out.span != nil {
			trace = out.span.Trace()
		}
		out.Future = p.append(now, trace)
		return batch, out
	}
}

// take waits for proposals and removes the next batch from the queue. It returns none once the Pipeline has
// ended.
func (p *Pipeline) take(batch []*proposal, first bool) []*proposal {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first {
		for p.queue.ops == 0 && p.stopped == nil {
			p.notEmpty.Wait()
		}
	} else {
		for !p.queue.full(&p.limits) && p.stopped == nil {
			p.entryFull.Wait()
		}
	}
	return p.queue.take(batch, &p.limits)
}

// encode adds the ops to the entry. It answers those that cannot be encoded and returns the others.
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

// append completes the entry in the builder and hands it to the log.
func (p *Pipeline) append(now time.Time, trace entry.Trace) Future {
	h := entry.Header{Level: p.env.Level(), Incarnation: p.incarnation, ClockNs: p.clock.next(now), Trace: trace}
	p.publishClock()
	if _, err := io.ReadFull(p.env.Rand, h.Seed[:]); err != nil {
		p.builder.Finish(h) // discard it: an entry must not be written without a seed
		return failure{api.Wrap(err, api.Internal, "no random bytes to be had: nothing was written")}
	}
	return p.env.Append(p.builder.Finish(h))
}

// failure is the Future of an entry that was not appended.
type failure struct{ err error }

func (f failure) Wait() ([]any, entry.Position, error) { return nil, entry.Position{}, f.err }

// deliver waits for an entry and answers each of its proposals.
func (p *Pipeline) deliver(batch []*proposal, sent inflight) {
	results, at, err := sent.Wait()
	if err == nil && len(results) != len(batch) {
		err = api.Errorf(api.Internal, "entry %d of %d ops had %d results", at.Index, len(batch), len(results))
	}
	if sent.span != nil {
		sent.span.End(at, err)
	}
	applied, now := len(batch), p.env.Now()
	if err != nil {
		applied = 0
	} else {
		p.stats.ApplyTime.observe(now.Sub(sent.appended))
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

// appendFirst appends the term's first op as an entry of its own and waits for it.
func (p *Pipeline) appendFirst(op Op) error {
	future, err := p.encodeFirst(op)
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

func (p *Pipeline) encodeFirst(op Op) (Future, error) {
	if err := op.Validate(); err != nil {
		return nil, err
	}
	p.entryMu.Lock()
	defer p.entryMu.Unlock()
	if err := p.builder.Add(op.Number(), op.SizeVT(), op); err != nil {
		return nil, err
	}
	return p.append(p.env.Now(), entry.Trace{}), nil
}
