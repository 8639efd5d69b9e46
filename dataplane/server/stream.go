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

// The bounds of streams of the lifecycle.
const (
	// DefaultStreamRate is how many frames a second one stream is read. Those above wait
	// where they are: in their client, once the connection's buffers are full.
	DefaultStreamRate = 500
	// DefaultStreamFrames is how many frames of all streams are in hand at once. The
	// others are not read.
	DefaultStreamFrames = 2048
	// DefaultMaxStreams is how many streams may be open.
	DefaultMaxStreams = 4096
	// streamAhead is how many frames of one stream are in hand at once, and how many may
	// come at once before they wait for the rate.
	streamAhead = 16
	// streamWait is how long a frame that would be answered with nothing waits for work.
	streamWait = 100 * time.Millisecond
	// streamSlow and streamSlowest bound how long a stream is not read after an error: the
	// first for one, twice as long for each more in a row.
	streamSlow    = 10 * time.Millisecond
	streamSlowest = time.Second
)

// lifecycle is the connection of a stream.
type lifecycle = connect.BidiStream[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]

// rpcStream does what the frames of a stream say, until the client has sent its last,
// leaves, or may not go on. All frames that were begun are answered first.
func (s *Server) rpcStream(ctx context.Context, conn *lifecycle) error {
	c := rpcCallOf(ctx)
	c.r = c.r.WithContext(ctx)
	err := s.openStream(c, conn)
	var (
		told      *connect.Error // of the protocol, or of a message that is out of bounds
		undecoded *api.Error     // why a codec could not read a frame, in an error of the protocol
	)
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case errors.As(err, &undecoded):
		return c.refuse(err)
	case errors.As(err, &told):
		return told
	}
	return c.refuse(err)
}

func (s *Server) openStream(c *rpcCall, conn *lifecycle) error {
	switch {
	case c.r.Header[idempotencyHeader] != nil:
		return api.Errorf(api.ValidationError, "%s names one request, and a stream has many: give the jobs unique keys, or send them one by one", idempotencyHeader)
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
	if err := conn.Send(nil); err != nil { // who waits for the headers before the first frame gets them
		return err
	}
	x := &stream{
		server: s, call: c, conn: conn, limits: limits, guard: limits.Guard(s.cfg.EventWriteWait),
		pending: make(chan *frame, streamAhead-1), room: room, turn: s.turnOf(c.r, c.principal()),
		pace: framePace{every: time.Second / time.Duration(s.cfg.StreamRate)},
	}
	if s.cfg.Dev {
		x.pace.every = 0
	}
	return x.run()
}

// stream is a stream of the lifecycle under way. Three goroutines serve it: one reads
// frames and has them begun in their order, one answers them in the same order, and one
// watches whether it may go on.
type stream struct {
	server  *Server
	call    *rpcCall
	conn    *lifecycle
	limits  *serve.Deadlines
	guard   *serve.WriteGuard
	pace    framePace
	turn    keyTurn
	room    room        // for frames
	pending chan *frame // begun, in order
	reading context.Context
	stop    context.CancelCauseFunc // ends the reading, with why
	failing atomic.Int64            // answers in a row that were errors
}

func (x *stream) run() error {
	x.reading, x.stop = context.WithCancelCause(x.call.r.Context())
	// What waits for a frame is not woken by a context.
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

// watch ends the reading when the stream may not go on: its key is revoked, its
// namespace closes, or the node does.
func (x *stream) watch() {
	for {
		doubt, err := x.server.cfg.Host.Doubt(x.call.principal().Namespace)
		if err == nil {
			_, err = x.enter()
		}
		if err != nil {
			x.stop(err)
			return
		}
		select {
		case <-doubt:
		case <-x.server.draining.Done():
			x.stop(shuttingDown())
			return
		case <-x.reading.Done():
			return
		}
	}
}

// enter asks who the client is, now.
func (x *stream) enter() (tenancy.Principal, error) {
	return x.server.stays(x.call.r, x.call.principal(), tenancy.JobWork)
}

// read begins frames as they come, within the stream's rate, those of its key and of its
// address, and the bounds of its namespace and of the node. A frame
// that came and was not begun has done nothing and is not answered.
func (x *stream) read() error {
	for {
		if !x.wait(x.pace.next(time.Now())) || !x.wait(x.turn.next()) || !x.wait(x.slowed()) {
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
			// The gateway, which is the node that the client knows: it ends the body
			// wherever the client is, also in the middle of a frame.
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

// wait waits for so long, and says whether the reading goes on.
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

// slowed is how long a stream is left alone whose last answers were errors: a client
// that asks the impossible as fast as it can costs as much as one that works.
func (x *stream) slowed() time.Duration {
	n := x.failing.Load()
	if n == 0 {
		return 0
	}
	return min(streamSlow<<min(n-1, 10), streamSlowest)
}

// answer answers frames in their order. What cannot be delivered goes back.
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

// framePace spreads what comes too fast.
type framePace struct {
	every time.Duration // 0 = as fast as it comes
	at    time.Time     // when the next one is due
}

// next is how long the next one has to wait.
func (p *framePace) next(now time.Time) time.Duration {
	if p.every == 0 {
		return 0
	}
	if earliest := now.Add(-p.every * (streamAhead - 1)); p.at.Before(earliest) {
		p.at = earliest // what was not used is lost but for a few
	}
	wait := p.at.Sub(now)
	p.at = p.at.Add(p.every)
	return wait
}

// streamDefaults fills in what the configuration leaves open of streams.
func (c *Config) streamDefaults() {
	c.StreamRate = cmp.Or(c.StreamRate, DefaultStreamRate)
	c.StreamFrames = cmp.Or(c.StreamFrames, DefaultStreamFrames)
	c.MessageWait = cmp.Or(c.MessageWait, DefaultMessageWait)
	c.MaxStreams = cmp.Or(c.MaxStreams, DefaultMaxStreams)
}
