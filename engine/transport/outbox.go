package transport

import (
	"context"
	"sync"
)

// The outbox queues the messages that a connection has to send. Urgent messages are short and go first, such
// as heartbeats, votes, pings, cancellations and short answers. All other messages belong to streams. The
// streams send one frame each in turn, so that a long message delays no other stream. Messages of one stream
// keep their order.

// message is a message to be sent. Once it is queued, the writer owns it, and the outbox's mutex guards its
// state.
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
	messageTaken                // all its frames were taken: the message may arrive
	messageDropped
)

// These constants bound an outbox and its writes.
const (
	// Callers wait while maxQueued bytes or more are queued, not counting urgent messages. So the queue
	// exceeds maxQueued by at most one message.
	maxQueued = 16 << 20
	// maxUrgent bounds the queued urgent messages. A further request fails. A further answer or ping ends the
	// connection, because the peer does not read.
	maxUrgent = 1 << 15
	// No more frames are added to a write of batch bytes or more.
	batch = 128 << 10
)

type outbox struct {
	mu       sync.Mutex
	urgent   []*message
	streams  map[uint64][]*message
	schedule []uint64 // streams with queued messages, in the order in which they send
	queued   int
	closed   bool
	ready    chan struct{} // holds a token while the writer has work
	space    chan struct{} // closed and replaced when queued falls below its bound
}

func newOutbox() *outbox {
	return &outbox{streams: map[uint64][]*message{}, ready: make(chan struct{}, 1), space: make(chan struct{})}
}

func (o *outbox) signal() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// enqueueUrgent queues an urgent message of at most one frame. It returns false if the outbox is closed or
// full.
func (o *outbox) enqueueUrgent(m *message) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.urgent) >= maxUrgent {
		return false
	}
	o.urgent = append(o.urgent, m)
	o.signal()
	return true
}

func (o *outbox) add(stream uint64, m *message) {
	if len(o.streams[stream]) == 0 {
		o.schedule = append(o.schedule, stream)
	}
	o.streams[stream] = append(o.streams[stream], m)
	o.queued += len(m.payload)
	o.signal()
}

// put waits while too many bytes are queued, and then queues a message after the earlier ones of its stream.
func (o *outbox) put(ctx context.Context, stream uint64, m *message) error {
	for {
		o.mu.Lock()
		if o.closed {
			o.mu.Unlock()
			return errBroken
		}
		if o.queued < maxQueued {
			o.add(stream, m)
			o.mu.Unlock()
			return nil
		}
		room := o.space
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// withdraw drops a message unless its last frame was already taken, and tells the peer to forget the frames
// sent so far. It returns true if the last frame was taken, because the message may then have arrived.
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

// close refuses further messages. Queued ones are never sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.space)
	}
}

// take appends frames until they fill a write or the queue is empty.
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
	for len(o.schedule) > 0 && len(to) < batch {
		to = o.takeFrame(to)
	}
	if len(o.urgent) > 0 || len(o.schedule) > 0 {
		o.signal()
	}
	return to
}

// takeFrame appends the next frame of the first scheduled stream. A message counts as queued, with its full
// size, until its last frame is taken, so that the receiver never holds more bytes of incomplete messages
// than are queued here.
func (o *outbox) takeFrame(to []byte) []byte {
	stream := o.schedule[0]
	o.schedule = o.schedule[1:]
	queue := o.streams[stream]
	m := queue[0]
	to = o.frame(to, m)
	if m.state == messageTaken || m.state == messageDropped {
		o.release(len(m.payload))
		if m.header.kind == frameAppend {
			recycle(m.payload)
			m.payload = nil
		}
		queue[0] = nil
		queue = queue[1:]
	}
	if len(queue) == 0 {
		delete(o.streams, stream)
		return to
	}
	o.streams[stream] = queue
	o.schedule = append(o.schedule, stream)
	return to
}

// release subtracts bytes that are no longer queued, and wakes waiting callers if there is room again.
func (o *outbox) release(n int) {
	full := o.queued >= maxQueued
	if o.queued -= n; full && o.queued < maxQueued {
		close(o.space)
		o.space = make(chan struct{})
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

// buffers holds buffers for long AppendEntries, because a new buffer costs the clearing of its memory.
var buffers sync.Pool // of *[]byte

// maxBuffer bounds the capacity of kept buffers, in bytes, so that the buffer of an entry much larger
// than MaxAppend is not kept.
const maxBuffer = MaxAppend + MaxFrame

// buffer returns an empty buffer with at least the given capacity.
func buffer(size int) []byte {
	if size >= MaxFrame {
		if b, _ := buffers.Get().(*[]byte); b != nil && cap(*b) >= size {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, size)
}

// recycle keeps a buffer for reuse. The caller must not use the buffer afterwards.
func recycle(b []byte) {
	if cap(b) >= MaxFrame && cap(b) <= maxBuffer {
		buffers.Put(&b)
	}
}
