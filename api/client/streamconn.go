package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
)

// streamConn is one connection of a stream. One goroutine sends its frames and one takes
// the answers, so that nobody else is held up by a server that does not read.
type streamConn struct {
	stream *Stream
	bidi   *connect.BidiStreamForClient[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc
	more   chan struct{} // there may be frames to send

	mu      sync.Mutex
	frames  []*streamFrame // that are not answered, in order
	sent    int            // so many of them
	retired bool           // no frame more will come
	broken  error
}

// streamFrame is a frame under way.
type streamFrame struct {
	message *workerpb.StreamLifecycleRequest
	answer  chan streamAnswer // has room for it
	left    bool              // nobody waits for the answer any longer
}

type streamAnswer struct {
	out *workerpb.StreamLifecycleResponse
	err error
}

// broken is why a connection ended, and with it the frames under way.
type broken struct{ why error }

func (b *broken) Error() string { return "stream: " + b.why.Error() }

// Unwrap is what the server said, where it did.
func (b *broken) Unwrap() error { return b.why }

// expect has a frame sent, behind those that were before it.
func (c *streamConn) expect(f *streamFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	c.frames = append(c.frames, f)
	select {
	case c.more <- struct{}{}:
	default:
	}
	return nil
}

// write sends frames as they come.
func (c *streamConn) write() {
	for {
		m := c.unsent()
		if m == nil {
			select {
			case <-c.more:
				continue
			case <-c.ctx.Done():
				return
			}
		}
		if err := c.bidi.Send(m); err != nil {
			if !errors.Is(err, io.EOF) { // why is told to the reader
				c.breakOff(err)
			}
			return
		}
	}
}

// unsent is the next message to send, which from now on is as good as sent; nil: there
// is none.
func (c *streamConn) unsent() *workerpb.StreamLifecycleRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == len(c.frames) {
		return nil
	}
	c.sent++
	return c.frames[c.sent-1].message
}

// read hands answers to those who wait for them.
func (c *streamConn) read() {
	for {
		out, err := c.bidi.Receive()
		if err != nil {
			c.breakOff(streamError(err))
			_ = c.bidi.CloseResponse()
			return
		}
		if err := c.answered(out); err != nil {
			c.breakOff(err) // the next Receive ends it
		}
	}
}

// answered takes the answer to the frame that was sent before all others.
func (c *streamConn) answered(out *workerpb.StreamLifecycleResponse) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == 0 || c.frames[0].message.RequestId != out.RequestId {
		return fmt.Errorf("an answer to frame %d came out of turn", out.RequestId)
	}
	f := c.frames[0]
	c.forget(0)
	c.sent--
	if !f.left {
		f.answer <- streamAnswer{out: out}
	} else if len(out.Jobs) > 0 {
		c.stream.running.Go(func() {
			late, _ := c.stream.take(out)
			c.stream.giveBack(late.Jobs)
		})
	}
	if c.retired && len(c.frames) == 0 {
		return errClosed
	}
	return nil
}

// forget takes a frame from those under way, which makes room for another one.
func (c *streamConn) forget(at int) {
	c.frames = slices.Delete(c.frames, at, at+1)
	<-c.stream.credit
}

// leave says that nobody waits for a frame any longer. One that was not sent yet is not
// sent. Where it has been answered before, it says with what.
func (c *streamConn) leave(f *streamFrame) (a streamAnswer, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.frames, f)
	switch {
	case at < 0:
		return <-f.answer, true
	case at >= c.sent:
		c.forget(at)
	default:
		f.left = true
	}
	return streamAnswer{}, false
}

// streamError is the error that ended a stream, as an *api.Error where the server said it.
func streamError(err error) error {
	if said := rpc.FromError(err); said != nil && connect.IsWireError(err) {
		return said
	}
	return err
}

func (c *streamConn) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// breakOff ends the connection: those who wait are told why.
func (c *streamConn) breakOff(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return
	}
	c.broken = &broken{why}
	c.cancel(c.broken)
	// HTTP/2 looks at the context when the request has been read to its end, not before.
	_ = c.bidi.CloseRequest()
	c.abandon(c.broken)
	for len(c.frames) > 0 {
		c.forget(0)
	}
	c.sent = 0
}

// abandon tells all who wait why they wait no longer.
func (c *streamConn) abandon(why error) {
	for _, f := range c.frames {
		if !f.left {
			f.left = true
			f.answer <- streamAnswer{err: why}
		}
	}
}

// finish ends the connection: at once, or where jobs may come yet when they have come and
// are on their way back, unless that takes too long.
func (c *streamConn) finish() {
	c.mu.Lock()
	c.retired = true
	c.abandon(&broken{errClosed})
	for len(c.frames) > c.sent {
		c.forget(c.sent)
	}
	idle := !slices.ContainsFunc(c.frames, func(f *streamFrame) bool { return f.message.FetchCount > 0 })
	c.mu.Unlock()
	if idle {
		c.breakOff(errClosed)
		return
	}
	time.AfterFunc(giveBackWait, func() { c.breakOff(errClosed) })
}

// retire ends the connection when nobody waits for it any longer.
func (c *streamConn) retire() {
	c.mu.Lock()
	c.retired = true
	idle := len(c.frames) == 0
	c.mu.Unlock()
	if idle {
		c.breakOff(errClosed)
	}
}
