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
	errBroken = errors.New("the connection has ended")
	errSilent = errors.New("nothing is heard from the peer")
	errDeaf   = errors.New("the peer does not read what it asks for")
)

// conn is a connection for messages. Its calling end asks, its called end answers;
// pings go both ways. One goroutine reads, one writes; the reader never waits for
// anything but bytes.
type conn struct {
	t       *Transport
	net     net.Conn
	peer    string // the ID in its certificate
	key     string // the key of its certificate
	calling bool   // we have called
	told    hello  // the peer's, if it has called
	// stranger says that another process is known to be the peer: see Know. It is
	// set with t.mu held.
	stranger atomic.Bool
	address  string // where, if we have; t.mu guards it, and:
	checked  int64  // heard, when it was looked at last
	quiet    int    // times since then that nothing new was heard
	out      *outbox
	heard    atomic.Int64 // when the last frame came, Unix nanoseconds
	ctx      context.Context
	cancel   context.CancelCauseFunc
	served   sync.WaitGroup

	mu        sync.Mutex
	waiting   map[uint64]*request // what we have asked
	asked     uint64              // requests so far: the newest's number
	numbers   map[groupKey]uint32 // of groups, as told to the peer
	calls     map[uint64]func()   // the peer's that are being answered; ends one
	callBytes int                 // in them
	pings     uint64
	pinged    time.Time

	in inbound // the reader's own
}

func newConn(t *Transport, c net.Conn, peer string, calling bool) *conn {
	n := &conn{
		t: t, net: c, peer: peer, calling: calling, out: newOutbox(),
		waiting: map[uint64]*request{}, numbers: map[groupKey]uint32{}, calls: map[uint64]func(){},
	}
	n.ctx, n.cancel = context.WithCancelCause(t.ctx)
	n.in = newInbound()
	n.alive()
	return n
}

// alive notes a sign of life.
func (c *conn) alive() { c.heard.Store(time.Now().UnixNano()) }

func (c *conn) heardAt() time.Time { return time.Unix(0, c.heard.Load()) }

// serve reads and writes until the connection ends, and returns when all it has
// started has.
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

// fail ends a connection: all who wait for an answer are told. nil is none.
func (c *conn) fail(err error) {
	if c == nil {
		return
	}
	c.cancel(err)
	c.out.close()
	_ = c.net.Close() // its error would be that of the first, which is told
	c.t.lost(c)
	c.mu.Lock()
	waiting := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	for _, r := range waiting {
		r.reply <- reply{err: fmt.Errorf("%w: %w", errBroken, context.Cause(c.ctx))}
	}
}

// write sends what is ready, as much at a time as there is.
func (c *conn) write() {
	var buffer []byte
	for {
		select {
		case <-c.out.ready:
		case <-c.ctx.Done():
			return
		}
		runtime.Gosched() // who is about to put something goes first, and goes with this write
		buffer = c.out.take(buffer[:0])
		if len(buffer) == 0 {
			continue
		}
		if _, err := c.net.Write(buffer); err != nil {
			c.fail(fmt.Errorf("write: %w", err))
			return
		}
		if len(buffer) >= maxUnsent {
			// The kernel takes that much only when the peer's has acknowledged what was
			// before. A ping's answer may be late: the ping lies behind what the peer has
			// not read yet.
			c.alive()
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
		payload, err := c.in.gather(r, h)
		if err != nil {
			return err
		}
		c.alive()
		if h.more() {
			continue
		}
		if err := c.dispatch(h, payload); err != nil {
			return err
		}
	}
}

// hurry sends an urgent message that nobody waits for.
func (c *conn) hurry(m *message) {
	if !c.out.hurry(m) && c.ctx.Err() == nil {
		c.fail(errDeaf)
	}
}

// dispatch hands a whole message to whom it concerns, without waiting for them.
func (c *conn) dispatch(h header, payload []byte) error {
	switch h.kind {
	case framePing:
		c.pong(h)
		return nil
	case framePong:
		return c.ponged(h, payload)
	case frameAnswer, frameFault:
		if !c.calling {
			return malformed("an answer from one who was not asked")
		}
		return c.answered(h, payload)
	}
	if c.calling {
		return malformed("a message of kind %d from one who was called", h.kind)
	}
	switch h.kind {
	case frameGroup:
		return c.in.introduce(h.group, payload)
	case frameCancel:
		c.cancelled(h.request)
		return nil
	case frameCall:
		return c.called(h, payload)
	case frameAppend, frameVote, framePreVote, frameTimeout:
		return c.raft(h, payload)
	}
	return malformed("a message of kind %d on a connection for messages", h.kind)
}

// cancelled forgets a request of the peer, whole or in pieces.
func (c *conn) cancelled(request uint64) {
	c.in.discard(request)
	c.mu.Lock()
	end := c.calls[request]
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

// maxInbound bounds the bytes of messages in pieces on a connection. Its other end
// has at most maxQueued and a message more under way.
const maxInbound = maxQueued + MaxMessage + MaxFrame

// inbound is what a connection's reader knows.
type inbound struct {
	pieces map[uint64]*piece
	bytes  int      // in pieces
	spare  [][]byte // frames to be read into again, of MaxFrame each
	groups map[uint32]*theirs
}

// maxSpare bounds the frames that are kept: those of a message of 1 MiB.
const maxSpare = 16

type piece struct {
	kind   frameKind
	group  uint32
	frames [][]byte // joined when all are there: growing would copy them more often
	bytes  int
}

// theirs is a group as the peer speaks of it.
type theirs struct {
	groupKey
	steady atomic.Uint64 // the term of its last heartbeat that was taken
}

func newInbound() inbound {
	return inbound{pieces: map[uint64]*piece{}, groups: map[uint32]*theirs{}}
}

// gather reads a frame's payload and puts it to those before it. What it returns
// is the message, if this was its last frame.
func (in *inbound) gather(r io.Reader, h header) ([]byte, error) {
	p := in.pieces[h.request]
	alone := h.kind == framePing || h.kind == framePong || h.kind == frameCancel // their numbers are not a message's
	if alone || p == nil && !h.more() {
		return filled(r, make([]byte, h.length))
	}
	if p == nil {
		p = &piece{kind: h.kind, group: h.group}
		in.pieces[h.request] = p
	}
	switch {
	case p.kind != h.kind || p.group != h.group:
		return nil, malformed("the frames of a message are of different kinds")
	case p.bytes+int(h.length) > MaxMessage || in.bytes+int(h.length) > maxInbound:
		return nil, malformed("a message of more than %d bytes, or several of more than %d", MaxMessage, maxInbound)
	case h.length == 0:
		return nil, malformed("an empty frame in a message of several")
	}
	payload, err := filled(r, in.room(int(h.length)))
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

// filled reads as many bytes as b has.
func filled(r io.Reader, b []byte) ([]byte, error) {
	_, err := io.ReadFull(r, b)
	return b, noEOF(err)
}

// room is for a frame that will be copied.
func (in *inbound) room(size int) []byte {
	if n := len(in.spare); n > 0 && size > MaxFrame/2 {
		b := in.spare[n-1]
		in.spare = in.spare[:n-1]
		return b[:size]
	}
	return make([]byte, size)
}

func (in *inbound) discard(request uint64) {
	p := in.pieces[request]
	if p == nil {
		return
	}
	for _, b := range p.frames {
		if cap(b) == MaxFrame && len(in.spare) < maxSpare {
			in.spare = append(in.spare, b)
		}
	}
	in.bytes -= p.bytes
	delete(in.pieces, request)
}

// introduce notes what a number stands for.
func (in *inbound) introduce(number uint32, payload []byte) error {
	key, err := decodeGroupKey(payload)
	switch {
	case err != nil:
		return err
	case number == 0 || in.groups[number] != nil:
		return malformed("group number %d is taken", number)
	case len(in.groups) >= maxGroups:
		return malformed("more than %d groups on a connection", maxGroups)
	}
	in.groups[number] = &theirs{groupKey: key}
	return nil
}
