package transport

import (
	"context"
	"sync"
)

// What a connection has to send. Two queues: urgent messages are short and go
// first (heartbeats, votes, their answers, pings); the others take turns, one frame
// each, so that a long one delays nobody. Messages with the same lane keep their
// order.

// message is one to be sent. The writer owns it once it is put; the outbox's mutex
// guards its state.
type message struct {
	header  header
	payload []byte
	sent    int // bytes of payload that the writer has taken
	state   messageState
}

type messageState uint8

const (
	messageWaits   messageState = iota
	messageStarted              // some of its frames were taken
	messageTaken                // all were: it may arrive
	messageDropped
)

// Bounds of what gathers when a peer does not read.
const (
	// maxQueued bounds the bytes that wait in a connection's outbox, but for urgent
	// messages. Who has more to say waits.
	maxQueued = 16 << 20
	// maxUrgent bounds the urgent messages that wait. A peer for whom as many gather
	// asks and does not read; its connection is ended.
	maxUrgent = 1 << 15
	// batch is how many bytes go in one write when there are as many.
	batch = 128 << 10
)

type outbox struct {
	mu     sync.Mutex
	urgent []*message
	lanes  map[uint64][]*message
	turns  []uint64 // lanes that have something, in the order of their turns
	queued int
	closed bool
	ready  chan struct{} // holds a token when the writer has work
	room   chan struct{} // closed and replaced when queued falls below its bound
}

func newOutbox() *outbox {
	return &outbox{lanes: map[uint64][]*message{}, ready: make(chan struct{}, 1), room: make(chan struct{})}
}

func (o *outbox) signal() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// hurry queues an urgent message of at most one frame, if there is room.
func (o *outbox) hurry(m *message) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.urgent) >= maxUrgent {
		return false
	}
	o.urgent = append(o.urgent, m)
	o.signal()
	return true
}

func (o *outbox) add(lane uint64, m *message) {
	if len(o.lanes[lane]) == 0 {
		o.turns = append(o.turns, lane)
	}
	o.lanes[lane] = append(o.lanes[lane], m)
	o.queued += len(m.payload)
	o.signal()
}

// put queues a message behind those of its lane, and waits while too much is
// queued.
func (o *outbox) put(ctx context.Context, lane uint64, m *message) error {
	for {
		o.mu.Lock()
		if o.closed {
			o.mu.Unlock()
			return errBroken
		}
		if o.queued < maxQueued {
			o.add(lane, m)
			o.mu.Unlock()
			return nil
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// withdraw stops a message from being sent and says whether its last frame was
// taken: then it may have arrived.
func (o *outbox) withdraw(m *message) (taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.state == messageTaken {
		return true
	}
	if m.state == messageStarted {
		cancel := header{kind: frameCancel, request: m.header.request}
		o.urgent = append(o.urgent, &message{header: cancel})
		o.signal()
	}
	m.state = messageDropped
	return false
}

// close refuses what comes. What waits is never taken.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.room)
	}
}

// take appends frames until there are enough for a write or no more.
func (o *outbox) take(to []byte) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return to
	}
	n := 0
	for ; n < len(o.urgent) && len(to) < batch; n++ {
		to = o.frame(to, o.urgent[n])
	}
	clear(o.urgent[:n])
	if o.urgent = o.urgent[n:]; len(o.urgent) == 0 {
		o.urgent = nil
	}
	for len(o.turns) > 0 && len(to) < batch {
		to = o.turn(to)
	}
	if len(o.urgent) > 0 || len(o.turns) > 0 {
		o.signal()
	}
	return to
}

// turn appends the next frame of the lane whose turn it is. A message counts as
// queued, whole, until its last frame: so the receiver, too, never holds more than
// that in pieces.
func (o *outbox) turn(to []byte) []byte {
	lane := o.turns[0]
	o.turns = o.turns[1:]
	queue := o.lanes[lane]
	m := queue[0]
	to = o.frame(to, m)
	if m.state == messageTaken || m.state == messageDropped {
		o.leave(len(m.payload))
		if m.header.kind == frameAppend {
			recycle(m.payload)
			m.payload = nil
		}
		queue[0] = nil
		queue = queue[1:]
	}
	if len(queue) == 0 {
		delete(o.lanes, lane)
		return to
	}
	o.lanes[lane] = queue
	o.turns = append(o.turns, lane)
	return to
}

// leave counts bytes that wait no more, and lets those go on who wait for that.
func (o *outbox) leave(n int) {
	full := o.queued >= maxQueued
	if o.queued -= n; full && o.queued < maxQueued {
		close(o.room)
		o.room = make(chan struct{})
	}
}

// frame appends a message's next frame.
func (o *outbox) frame(to []byte, m *message) []byte {
	if m.state == messageDropped {
		return to
	}
	n := min(len(m.payload)-m.sent, MaxFrame)
	h := m.header
	h.length = uint32(n)
	m.state = messageTaken
	if m.sent+n < len(m.payload) {
		h.flags |= flagMore
		m.state = messageStarted
	}
	to = append(h.append(to), m.payload[m.sent:m.sent+n]...)
	m.sent += n
	return to
}

// buffers are those that long AppendEntries are written to: made anew, each costs
// the clearing of its memory.
var buffers sync.Pool // of *[]byte

// maxBuffer bounds, in bytes, the buffers that are kept: those of one entry of the
// largest size are not.
const maxBuffer = MaxAppend + MaxFrame

// buffer is an empty one with room for so many bytes.
func buffer(size int) []byte {
	if size >= MaxFrame {
		if b, _ := buffers.Get().(*[]byte); b != nil && cap(*b) >= size {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, size)
}

// recycle is for a buffer that nobody reads any more.
func recycle(b []byte) {
	if cap(b) >= MaxFrame && cap(b) <= maxBuffer {
		buffers.Put(&b)
	}
}
