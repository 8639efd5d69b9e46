package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
)

const (
	// After streamTries unanswered frames in a row the worker uses requests for the time streamRest, because
	// some proxies do not support HTTP/2.
	streamTries = 3
	streamRest  = time.Minute
)

// streamTransport acks over a stream. Each frame fetches as many jobs as it acks, so that a busy worker needs
// one message for the end of a job and the start of the next. An idle worker waits with a long poll, which is
// a separate request.
type streamTransport struct {
	httpTransport
	stream *Stream
	silent atomic.Int64 // unanswered frames in a row
	restNs atomic.Int64 // Unix nanoseconds until which no frame is sent
}

func newStreamTransport(r *run) *streamTransport {
	return &streamTransport{httpTransport: httpTransport{client: r.client, run: r}, stream: r.client.Stream()}
}

func (s *streamTransport) close() { s.stream.Close() }

func (s *streamTransport) ack(ctx context.Context, items []ackItem) []error {
	if time.Now().UnixNano() < s.restNs.Load() {
		return s.httpTransport.ack(ctx, items)
	}
	f := Frame{Acks: make([]api.AckItem, len(items))}
	for i := range items {
		f.Acks[i] = items[i].AckItem
	}
	if !s.run.isDraining() {
		ask := s.run.fetchRequest(nil)
		f.Fetch, f.Count = &ask, len(items)
	}
	out, err := s.stream.Do(ctx, f)
	var cut *broken
	if errors.As(err, &cut) || errors.Is(err, context.DeadlineExceeded) || err != nil && ctx.Err() != nil {
		if s.silent.Add(1) == streamTries {
			s.silent.Store(0)
			s.restNs.Store(time.Now().Add(streamRest).UnixNano())
			s.run.log.Warn("worker: its stream has no answers; for a while it works without", "worker_id", s.run.id, "error", err)
		}
		return s.httpTransport.ack(ctx, items) // a repeat of acks that took effect does nothing
	}
	s.silent.Store(0)
	for _, e := range out.JobErrors {
		s.run.log.Error("worker: a job failed, for it cannot be read", "worker_id", s.run.id, "job_id", e.JobID, "error", e.Error)
	}
	if ctx.Err() != nil { // the run is over, so nobody can run them
		s.stream.giveBack(out.Jobs)
		out.Jobs = nil
	}
	for i := range out.Jobs {
		// A job takes the slot of a job that was acked in the same frame, unless that slot was freed
		// already.
		s.run.start(s.run.calls, out.Jobs[i], nil, i < len(items) && items[i].job.takeSlot())
	}
	if out.Acked+len(out.AckErrors) == len(items) {
		err = nil // only the fetch failed, and the next poll returns its error
	}
	return errorsOf(items, out.AckErrors, err)
}
