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

// streamConn is one connection of a stream. One goroutine sends its frames and another receives the
// responses, so that a server that does not read blocks no caller.
type streamConn struct {
	stream *Stream
	bidi   *connect.BidiStreamForClient[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc
	more   chan struct{} // wakes the sender

	mu      sync.Mutex
	frames  []*streamFrame // not yet answered, in order
	sent    int            // number of frames that were sent
	retired bool           // no further frame will come
	broken  error
}

// streamFrame is a frame under way.
type streamFrame struct {
	message *workerpb.StreamLifecycleRequest
	answer  chan streamAnswer // has room for one
	left    bool              // the caller no longer waits
}

type streamAnswer struct {
	out *workerpb.StreamLifecycleResponse
	err error
}

// broken is the reason why a connection and its frames under way ended.
type broken struct{ why error }

func (b *broken) Error() string { return "stream: " + b.why.Error() }

// Unwrap returns the reason, such as an error of the server.
func (b *broken) Unwrap() error { return b.why }

// expect queues a frame for sending.
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

// write sends the queued frames.
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
			if !errors.Is(err, io.EOF) { // after io.EOF the reader gets the reason
				c.abort(err)
			}
			return
		}
	}
}

// unsent returns the next message to send and counts it as sent; nil = none.
func (c *streamConn) unsent() *workerpb.StreamLifecycleRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == len(c.frames) {
		return nil
	}
	c.sent++
	return c.frames[c.sent-1].message
}

// read passes responses to the waiting callers.
func (c *streamConn) read() {
	for {
		out, err := c.bidi.Receive()
		if err != nil {
			c.abort(streamError(err))
			_ = c.bidi.CloseResponse()
			return
		}
		if err := c.answered(out); err != nil {
			c.abort(err) // the next Receive ends it
		}
	}
}

// answered handles the response to the oldest frame that was sent.
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

// forget removes a frame from those under way, which makes room for another one.
func (c *streamConn) forget(at int) {
	c.frames = slices.Delete(c.frames, at, at+1)
	<-c.stream.credit
}

// leave records that the caller of a frame no longer waits. A frame that was not sent yet is dropped. If
// a frame was answered already, leave returns the response.
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

// streamError returns the error that ended a stream, as an *api.Error if it came from the server.
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

// abort ends the connection and passes the reason to the waiting callers.
func (c *streamConn) abort(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return
	}
	c.broken = &broken{why}
	c.cancel(c.broken)
	// HTTP/2 watches the context only after the request has been read to its end.
	_ = c.bidi.CloseRequest()
	c.abandon(c.broken)
	for len(c.frames) > 0 {
		c.forget(0)
	}
	c.sent = 0
}

// abandon passes an error to all waiting callers.
func (c *streamConn) abandon(why error) {
	for _, f := range c.frames {
		if !f.left {
			f.left = true
			f.answer <- streamAnswer{err: why}
		}
	}
}

// finish passes an error to all waiting callers. If no sent frame fetches jobs, it ends the connection at
// once; if one does, the connection ends after the last response, and at the latest after giveBackWait.
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
		c.abort(errClosed)
		return
	}
	time.AfterFunc(giveBackWait, func() { c.abort(errClosed) })
}

// retire ends the connection after the last response under way.
func (c *streamConn) retire() {
	c.mu.Lock()
	c.retired = true
	idle := len(c.frames) == 0
	c.mu.Unlock()
	if idle {
		c.abort(errClosed)
	}
}
