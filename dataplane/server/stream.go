package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/tenancy"
)

// Bounds of worker streams.
const (
	// DefaultStreamRate is the number of frames that are read from one stream per second. Further frames wait
	// in the connection's buffers and then in the client.
	DefaultStreamRate = 500
	// DefaultStreamFrames is the number of frames of all streams that are in progress at once. A further
	// frame waits before it begins, and meanwhile its stream is not read.
	DefaultStreamFrames = 2048
	// DefaultMaxStreams is the number of streams that may be open.
	DefaultMaxStreams = 4096
	// streamAhead is the number of frames of one stream that are in progress at once. It is also the burst
	// that the stream's rate allows.
	streamAhead = 16
	// streamWait is how long a frame with nothing but a fetch waits for work.
	streamWait = 100 * time.Millisecond
	// After an error answer a stream is not read for streamSlow. The pause doubles with each further error
	// answer in a row, up to streamSlowest.
	streamSlow    = 10 * time.Millisecond
	streamSlowest = time.Second
)

// lifecycle is the connection of a worker stream.
type lifecycle = connect.BidiStream[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]

// rpcStream processes the frames of a stream until the client has sent its last frame or leaves, or until the
// stream must end: the client loses the right or sends a message out of bounds, the namespace closes, or this
// node or the gateway shuts down. Before it returns, it answers all frames that have begun, as long as the
// connection takes answers.
func (s *Server) rpcStream(ctx context.Context, conn *lifecycle) error {
	c := rpcCallOf(ctx)
	c.r = c.r.WithContext(ctx)
	err := s.openStream(c, conn)
	var (
		refused   *connect.Error // an error of the protocol, or of a message out of bounds
		undecoded *api.Error     // the error of a codec that could not decode a frame, inside an error of the protocol
	)
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case errors.As(err, &undecoded):
		return c.refuse(err)
	case errors.As(err, &refused):
		return refused
	}
	return c.refuse(err)
}

func (s *Server) openStream(c *rpcCall, conn *lifecycle) error {
	switch {
	case c.r.Header[idempotencyHeader] != nil:
		return api.Errorf(api.ValidationError, "%s identifies one request, but a stream has many: give the jobs unique keys, or send them one by one", idempotencyHeader)
	case s.draining.Err() != nil:
		return shuttingDown()
	}
	of := c.principal().Namespace
	room, err := s.enterStream(of)
	if err != nil {
		return err
	}
	defer s.leaveStream(of)
	limits := serve.DeadlinesOf(c.w)
	defer limits.End()
	limits.WriteForever()
	c.body.late = time.AfterFunc(c.body.wait, limits.EndReads)
	defer c.body.late.Stop()
	c.body.late.Stop()
	if err := conn.Send(nil); err != nil { // a client may wait for the headers before it sends a frame
		return err
	}
	x := &stream{
		server: s, call: c, conn: conn, limits: limits, guard: limits.Guard(s.cfg.EventWriteWait),
		pending: make(chan *frame, streamAhead-1), room: room, rate: s.keyRateOf(c.r, c.principal()),
		pace: framePace{every: time.Second / time.Duration(s.cfg.StreamRate)},
	}
	if s.cfg.Dev {
		x.pace.every = 0
	}
	return x.run()
}

// stream is an open worker stream. Three goroutines serve it: one reads frames and begins them in their
// order, one answers them in that order, and one watches whether the stream may continue.
type stream struct {
	server  *Server
	call    *rpcCall
	conn    *lifecycle
	limits  *serve.Deadlines
	guard   *serve.WriteGuard
	pace    framePace
	rate    keyRate
	room    room        // bounds the frames in progress
	pending chan *frame // frames that have begun, in order
	reading context.Context
	stop    context.CancelCauseFunc // ends the reading, with the reason
	failing atomic.Int64            // error answers in a row
}

func (x *stream) run() error {
	x.reading, x.stop = context.WithCancelCause(x.call.r.Context())
	// A context does not wake a goroutine that waits for a frame.
	defer context.AfterFunc(x.reading, x.limits.EndReads)()
	var beside sync.WaitGroup
	beside.Go(x.watch)
	beside.Go(x.answer)
	err := x.read()
	close(x.pending)
	x.stop(nil)
	beside.Wait()
	return err
}

// watch ends the reading when the stream may no longer continue, because its key lost the right to work, its
// namespace closes or the node shuts down.
func (x *stream) watch() {
	for {
		recheck, err := x.server.cfg.Host.Rechecks(x.call.principal().Namespace)
		if err == nil {
			_, err = x.enter()
		}
		if err != nil {
			x.stop(err)
			return
		}
		select {
		case <-recheck:
		case <-x.server.draining.Done():
			x.stop(shuttingDown())
			return
		case <-x.reading.Done():
			return
		}
	}
}

// enter authenticates the client again and returns its present principal.
func (x *stream) enter() (tenancy.Principal, error) {
	return x.server.stays(x.call.r, x.call.principal(), tenancy.JobWork)
}

// read begins frames as they come, within the rates of the stream, of its key and of its address, and within
// the bounds of its namespace and of the node. A frame that was read but not begun has had no effect and gets
// no answer.
func (x *stream) read() error {
	for {
		if !x.wait(x.pace.next(time.Now())) || !x.wait(x.rate.next()) || !x.wait(x.slowed()) {
			return context.Cause(x.reading)
		}
		m := workerpb.StreamLifecycleRequestFromVTPool()
		err := x.conn.Conn().Receive(m)
		f := &frame{stream: x, m: m, size: x.call.body.cut(), done: make(chan struct{})}
		if x.reading.Err() != nil {
			err = context.Cause(x.reading)
		} else if err == nil {
			if !x.room.take(x.reading.Done()) {
				err = context.Cause(x.reading)
			} else if f.who, err = x.enter(); err != nil {
				x.room.give()
			}
		}
		if err != nil {
			x.server.bodies.give(f.size)
			// The trailer is from the gateway, which is the node that the client knows. A gateway that drains
			// ends the body at once, even in the middle of a frame.
			if x.call.r.Trailer.Get(fleet.DrainTrailer) != "" {
				return shuttingDown()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		x.pending <- f
		f.begin()
	}
}

// wait waits for a duration and reports whether the reading continues.
func (x *stream) wait(d time.Duration) bool {
	if d <= 0 {
		return x.reading.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.reading.Done():
		return false
	}
}

// slowed returns the pause before the next read of a stream whose last answers were errors, because a client
// that repeats a failing request at full speed costs as much as one that works.
func (x *stream) slowed() time.Duration {
	n := x.failing.Load()
	if n == 0 {
		return 0
	}
	return min(streamSlow<<min(n-1, 10), streamSlowest)
}

// answer answers frames in their order and gives back the jobs that could not be delivered.
func (x *stream) answer() {
	broken := false
	for f := range x.pending {
		<-f.done
		out := f.answer()
		if out.Error == "" {
			x.failing.Store(0)
		} else {
			x.failing.Add(1)
		}
		if !broken {
			x.guard.Begin()
			if err := x.conn.Send(out); err != nil {
				broken = true
				x.stop(err)
			}
			x.guard.End()
		}
		if broken && len(f.leased) > 0 {
			x.server.giveBack(x.call.r, &f.q, f.leased)
		}
		f.release()
		x.room.give()
		x.server.bodies.give(f.size)
	}
}

// framePace spreads frames evenly over time.
type framePace struct {
	every time.Duration // 0 = no limit
	at    time.Time     // when the next frame is due
}

// next returns the wait before the next frame; 0 or less means no wait.
func (p *framePace) next(now time.Time) time.Duration {
	if p.every == 0 {
		return 0
	}
	if earliest := now.Add(-p.every * (streamAhead - 1)); p.at.Before(earliest) {
		p.at = earliest // unused time is lost, except for a burst
	}
	wait := p.at.Sub(now)
	p.at = p.at.Add(p.every)
	return wait
}

// streamDefaults sets the defaults of the configuration for streams.
func (c *Config) streamDefaults() {
	c.StreamRate = cmp.Or(c.StreamRate, DefaultStreamRate)
	c.StreamFrames = cmp.Or(c.StreamFrames, DefaultStreamFrames)
	c.MessageWait = cmp.Or(c.MessageWait, DefaultMessageWait)
	c.MaxStreams = cmp.Or(c.MaxStreams, DefaultMaxStreams)
}
