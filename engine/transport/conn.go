package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errBroken       = errors.New("the connection has ended")
	errUnresponsive = errors.New("nothing is heard from the peer")
	errNotReading   = errors.New("the peer does not read what it asks for")
)

// conn is a connection for messages. The end that opened it sends requests, the other end answers them; pings
// go both ways. One goroutine reads and one writes. The reader never waits for anything but bytes.
type conn struct {
	t       *Transport
	net     net.Conn
	peer    string // the ID in its certificate
	key     string // the key of its certificate
	calling bool   // this node opened the connection
	hello   hello  // the peer's, if the peer opened the connection
	// impostor says that the peer's key is not the one known for its ID (see Know). It is set with t.mu held.
	impostor atomic.Bool
	address  string // the peer's address, if this node opened the connection; t.mu guards address, checked and quiet
	checked  int64  // lastSeen at the last check
	quiet    int    // number of checks since then without anything new
	out      *outbox
	lastSeen atomic.Int64 // when the last frame arrived, Unix nanoseconds
	ctx      context.Context
	cancel   context.CancelCauseFunc
	served   sync.WaitGroup

	mu        sync.Mutex
	waiting   map[uint64]*request // this node's requests without an answer, by number
	asked     uint64              // number of requests so far; the newest has this number
	numbers   map[groupKey]uint32 // of groups, as assigned by this node
	calls     map[uint64]func()   // the peer's calls that are being answered; the function cancels one
	callBytes int                 // size of their requests
	pings     uint64
	pinged    time.Time

	in inbound // used only by the reader
}

func newConn(t *Transport, c net.Conn, peer string, calling bool) *conn {
	n := &conn{
		t: t, net: c, peer: peer, calling: calling, out: newOutbox(),
		waiting: map[uint64]*request{}, numbers: map[groupKey]uint32{}, calls: map[uint64]func(){},
	}
	n.ctx, n.cancel = context.WithCancelCause(t.ctx)
	n.in = newInbound()
	n.markAlive()
	return n
}

// markAlive records that the peer was heard from.
func (c *conn) markAlive() { c.lastSeen.Store(time.Now().UnixNano()) }

func (c *conn) lastSeenAt() time.Time { return time.Unix(0, c.lastSeen.Load()) }

// serve reads and writes until the connection ends, and returns once all goroutines of the connection have
// ended.
func (c *conn) serve() {
	c.served.Go(c.write)
	c.ping()
	err := c.read()
	c.fail(err)
	if c.t.ctx.Err() == nil {
		level := c.t.log.Debug
		if errors.Is(err, ErrMalformed) {
			level = c.t.log.Error
		}
		level("a connection has ended", "peer", c.peer, "error", context.Cause(c.ctx))
	}
	c.served.Wait()
}

// fail ends a connection and answers all waiting requests with the error. It does nothing on a nil
// connection.
func (c *conn) fail(err error) {
	if c == nil {
		return
	}
	c.cancel(err)
	c.out.close()
	_ = c.net.Close() // the first error is reported, not this one
	c.t.lost(c)
	c.mu.Lock()
	waiting := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	for _, r := range waiting {
		r.reply <- reply{err: fmt.Errorf("%w: %w", errBroken, context.Cause(c.ctx))}
	}
}

// write sends the queued frames, as many as one write takes at a time.
func (c *conn) write() {
	var buffer []byte
	for {
		select {
		case <-c.out.ready:
		case <-c.ctx.Done():
			return
		}
		runtime.Gosched() // goroutines that are about to queue a message share this write
		buffer = c.out.take(buffer[:0])
		if len(buffer) == 0 {
			continue
		}
		if _, err := c.net.Write(buffer); err != nil {
			c.fail(fmt.Errorf("write: %w", err))
			return
		}
		if len(buffer) >= maxUnsent {
			// The kernel accepts that much only after the peer's kernel has acknowledged earlier bytes, so
			// the peer is alive. Its answer to a ping may be late, because the peer has not read all bytes
			// before the ping.
			c.markAlive()
		}
	}
}

func (c *conn) read() error {
	r := bufio.NewReaderSize(c.net, record)
	for {
		h, err := readHeader(r)
		if err != nil {
			return err
		}
		payload, err := c.in.assemble(r, h)
		if err != nil {
			return err
		}
		c.markAlive()
		if h.more() {
			continue
		}
		if err := c.dispatch(h, payload); err != nil {
			return err
		}
	}
}

// enqueueUrgent queues an urgent message that no caller waits for. If the queue is full, it ends the
// connection.
func (c *conn) enqueueUrgent(m *message) {
	if !c.out.enqueueUrgent(m) && c.ctx.Err() == nil {
		c.fail(errNotReading)
	}
}

// dispatch passes a whole message to its recipient without waiting for it.
func (c *conn) dispatch(h header, payload []byte) error {
	switch h.kind {
	case framePing:
		c.answerPing(h)
		return nil
	case framePong:
		return c.handlePong(h, payload)
	case frameAnswer, frameFault:
		if !c.calling {
			return malformed("an answer from one who was not asked")
		}
		return c.handleAnswer(h, payload)
	}
	if c.calling {
		return malformed("a message of kind %d from one who was called", h.kind)
	}
	switch h.kind {
	case frameGroup:
		return c.in.registerGroup(h.group, payload)
	case frameCancel:
		c.handleCancel(h.request)
		return nil
	case frameCall:
		return c.handleCall(h, payload)
	case frameAppend, frameVote, framePreVote, frameTimeout:
		return c.handleRaft(h, payload)
	}
	return malformed("a message of kind %d on a connection for messages", h.kind)
}

// handleCancel drops a request of the peer, whether it has arrived completely or not.
func (c *conn) handleCancel(request uint64) {
	c.in.discard(request)
	c.mu.Lock()
	end := c.calls[request]
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

// maxInbound bounds the bytes of incomplete messages on a connection. The other end sends at most maxQueued
// bytes and one more message.
const maxInbound = maxQueued + MaxMessage + MaxFrame

// inbound is the state of a connection's reader.
type inbound struct {
	partials map[uint64]*partial
	bytes    int      // in partials
	spare    [][]byte // frame buffers for reuse, of MaxFrame each
	groups   map[uint32]*peerGroup
}

// maxSpare bounds the frame buffers kept for reuse: enough for a message of 1 MiB.
const maxSpare = 16

type partial struct {
	kind   frameKind
	group  uint32
	frames [][]byte // joined once all have arrived, because growing a buffer would copy them more often
	bytes  int
}

// peerGroup is a group under the number that the peer assigned to it.
type peerGroup struct {
	groupKey
	heartbeatTerm atomic.Uint64 // the term of its last answered heartbeat
}

func newInbound() inbound {
	return inbound{partials: map[uint64]*partial{}, groups: map[uint32]*peerGroup{}}
}

// assemble reads a frame's payload and adds it to the message's earlier frames. It returns the message once
// its last frame has arrived, and nil before.
func (in *inbound) assemble(r io.Reader, h header) ([]byte, error) {
	p := in.partials[h.request]
	alone := h.kind == framePing || h.kind == framePong || h.kind == frameCancel // they have request numbers of their own
	if alone || p == nil && !h.more() {
		return readFull(r, make([]byte, h.length))
	}
	if p == nil {
		p = &partial{kind: h.kind, group: h.group}
		in.partials[h.request] = p
	}
	switch {
	case p.kind != h.kind || p.group != h.group:
		return nil, malformed("the frames of a message are of different kinds")
	case p.bytes+int(h.length) > MaxMessage || in.bytes+int(h.length) > maxInbound:
		return nil, malformed("a message of more than %d bytes, or several of more than %d", MaxMessage, maxInbound)
	case h.length == 0:
		return nil, malformed("an empty frame in a message of several")
	}
	payload, err := readFull(r, in.frameBuffer(int(h.length)))
	if err != nil {
		return nil, err
	}
	p.frames = append(p.frames, payload)
	p.bytes += len(payload)
	in.bytes += len(payload)
	if h.more() {
		return nil, nil
	}
	whole := slices.Concat(p.frames...)
	in.discard(h.request)
	return whole, nil
}

// readFull fills b from r.
func readFull(r io.Reader, b []byte) ([]byte, error) {
	_, err := io.ReadFull(r, b)
	return b, noEOF(err)
}

// frameBuffer returns a buffer for a frame that will be copied.
func (in *inbound) frameBuffer(size int) []byte {
	if n := len(in.spare); n > 0 && size > MaxFrame/2 {
		b := in.spare[n-1]
		in.spare = in.spare[:n-1]
		return b[:size]
	}
	return make([]byte, size)
}

func (in *inbound) discard(request uint64) {
	p := in.partials[request]
	if p == nil {
		return
	}
	for _, b := range p.frames {
		if cap(b) == MaxFrame && len(in.spare) < maxSpare {
			in.spare = append(in.spare, b)
		}
	}
	in.bytes -= p.bytes
	delete(in.partials, request)
}

// registerGroup records the number that the peer assigned to a group.
func (in *inbound) registerGroup(number uint32, payload []byte) error {
	key, err := decodeGroupKey(payload)
	switch {
	case err != nil:
		return err
	case number == 0 || in.groups[number] != nil:
		return malformed("group number %d is taken", number)
	case len(in.groups) >= maxGroups:
		return malformed("more than %d groups on a connection", maxGroups)
	}
	in.groups[number] = &peerGroup{groupKey: key}
	return nil
}
