package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
)

const (
	// streamTries is how many frames in a row may go without an answer before a stream is
	// given up for streamRest: proxies that know no HTTP/2 are left alone.
	streamTries = 3
	streamRest  = time.Minute
)

// streamed acks over a stream. Each frame asks for as many jobs as it acks, so that a busy
// worker needs one message for the end of a job and the beginning of the next. An idle one
// waits with a long poll, which costs nothing meanwhile.
type streamed struct {
	polls
	stream *Stream
	silent atomic.Int64 // frames in a row that had no answer
	restNs atomic.Int64 // no frame is sent before; Unix nanoseconds
}

func newStreamed(r *run) *streamed {
	return &streamed{polls: polls{client: r.client, run: r}, stream: r.client.Stream()}
}

func (s *streamed) close() { s.stream.Close() }

func (s *streamed) ack(ctx context.Context, items []ackItem) []error {
	if time.Now().UnixNano() < s.restNs.Load() {
		return s.polls.ack(ctx, items)
	}
	f := Frame{Acks: make([]api.AckItem, len(items))}
	for i := range items {
		f.Acks[i] = items[i].AckItem
	}
	if !s.run.drains() {
		ask := s.run.asks(nil)
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
		return s.polls.ack(ctx, items) // what the frame did is not done twice
	}
	s.silent.Store(0)
	for _, e := range out.JobErrors {
		s.run.log.Error("worker: a job failed, for it cannot be read", "worker_id", s.run.id, "job_id", e.JobID, "error", e.Error)
	}
	if ctx.Err() != nil { // the run is over: nobody could do them any longer
		s.stream.giveBack(out.Jobs)
		out.Jobs = nil
	}
	for i := range out.Jobs {
		// A job takes the slot of one that was acked with it, unless nobody waits for that any more.
		s.run.begin(s.run.calls, out.Jobs[i], nil, i < len(items) && items[i].job.giveSlot())
	}
	if out.Acked+len(out.AckErrors) == len(items) {
		err = nil // what is wrong is the fetch, which the next poll will hear of
	}
	return errorsOf(items, out.AckErrors, err)
}
