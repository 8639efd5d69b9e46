package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window bounds the bytes that were written in one direction and not read. A writer waits while the window is
// full, as with TCP.
const window = 256 << 10

// flow is one direction of a connection.
type flow struct {
	way way

	mu       sync.Mutex
	chunks   []chunk // in the order of writing and of arrival
	size     int     // bytes in chunks
	held     bool
	delay    time.Duration
	ended    bool      // the writer has closed its end
	endAt    time.Time // when the reader learns of it
	deaf     bool      // the reader has closed its end
	reset    bool
	changed  chan struct{} // closed and replaced when any of these fields changes
	arriving time.Time     // arrival of the last chunk
}

type chunk struct {
	bytes []byte
	at    time.Time // time of arrival
}

func newFlow(w way) *flow { return &flow{way: w, changed: make(chan struct{})} }

// wake wakes the waiting readers and writers. The caller holds f.mu.
func (f *flow) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *flow) set(held bool, delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held, f.delay = held, delay
	f.wake()
}

// arrival returns the arrival time of bytes sent now, which is never before an earlier arrival. The caller
// holds f.mu.
func (f *flow) arrival() time.Time {
	at := time.Now().Add(f.delay)
	if at.Before(f.arriving) {
		at = f.arriving
	}
	f.arriving = at
	return at
}

func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended, f.endAt = true, f.arrival()
		f.wake()
	}
}

// unread closes the reader's end.
func (f *flow) unread() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = true
	f.wake()
}

func (f *flow) fail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reset, f.chunks, f.size = true, nil, 0
	f.wake()
}

// tryRead reads the bytes that have arrived. If there are none, it returns what to wait for: changed and,
// if it is not zero, at.
//
//lint:ignore ST1008 what to wait for comes after what io.Reader answers
func (f *flow) tryRead(p []byte) (n int, err error, changed chan struct{}, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.reset:
		return 0, syscall.ECONNRESET, nil, at
	case f.held:
		return 0, nil, f.changed, at
	case len(f.chunks) > 0:
		if at = f.chunks[0].at; at.After(time.Now()) {
			return 0, nil, f.changed, at
		}
		return f.take(p), nil, nil, at
	case f.ended:
		if f.endAt.After(time.Now()) {
			return 0, nil, f.changed, f.endAt
		}
		return 0, io.EOF, nil, at
	}
	return 0, nil, f.changed, at
}

// take reads from the chunks that have arrived. The caller holds f.mu.
func (f *flow) take(p []byte) (n int) {
	now := time.Now()
	for n < len(p) && len(f.chunks) > 0 && !f.chunks[0].at.After(now) {
		c := &f.chunks[0]
		k := copy(p[n:], c.bytes)
		n += k
		if c.bytes = c.bytes[k:]; len(c.bytes) == 0 {
			f.chunks = f.chunks[1:]
		}
	}
	f.size -= n
	f.wake()
	return n
}

// tryWrite writes as much as fits into the window; if nothing fits, it returns the channel to wait for. It
// reports a closed reader only if told is true, because a reset could not come back through a cut.
//
//lint:ignore ST1008 what to wait for comes after what io.Writer answers
func (f *flow) tryWrite(p []byte, told bool) (n int, err error, changed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reset || f.deaf && told {
		return 0, syscall.ECONNRESET, nil
	}
	n = min(len(p), window-f.size)
	if n == 0 {
		return 0, nil, f.changed
	}
	f.chunks = append(f.chunks, chunk{append([]byte(nil), p[:n]...), f.arrival()})
	f.size += n
	f.wake()
	return n, nil, nil
}

func (f *flow) isHeld() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// conn is one end of a connection.
type conn struct {
	net           *Net
	listed        *conn // the end that Net.conns lists
	out, in       *flow
	here, there   addr
	once          sync.Once
	closed        chan struct{}
	reads, writes deadline
	writing       chan struct{} // holds a token while a goroutine writes
}

func newConn(n *Net, out, in *flow, here, there addr) *conn {
	return &conn{
		net: n, out: out, in: in, here: here, there: there, closed: make(chan struct{}),
		reads: deadline{done: make(chan struct{})}, writes: deadline{done: make(chan struct{})},
		writing: make(chan struct{}, 1),
	}
}

func (c *conn) LocalAddr() net.Addr  { return c.here }
func (c *conn) RemoteAddr() net.Addr { return c.there }

func (c *conn) fault(op string, err error) error {
	return &net.OpError{Op: op, Net: c.here.Network(), Source: c.here, Addr: c.there, Err: err}
}

// stopped returns the reason why an operation must end, or nil.
func (c *conn) stopped(expired <-chan struct{}) error {
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
	}
	select {
	case <-expired:
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		expired := c.reads.expired()
		if err := c.stopped(expired); err != nil {
			return 0, c.fault("read", err)
		}
		if len(p) == 0 {
			return 0, nil
		}
		n, err, changed, at := c.in.tryRead(p)
		switch {
		case err == io.EOF:
			return 0, err
		case err != nil:
			return 0, c.fault("read", err)
		case n > 0:
			return n, nil
		}
		c.wait(changed, at, expired)
	}
}

// wait returns when changed or expired is closed, the time at has come (zero = never), or c is closed.
func (c *conn) wait(changed chan struct{}, at time.Time, expired <-chan struct{}) {
	var arrives <-chan time.Time
	if !at.IsZero() {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		arrives = t.C
	}
	select {
	case <-changed:
	case <-arrives:
	case <-expired:
	case <-c.closed:
	}
}

// Write excludes other writers with a channel and not a mutex, because synctest treats only a blocked channel
// operation as waiting.
func (c *conn) Write(p []byte) (written int, err error) {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-c.closed:
		return 0, c.fault("write", net.ErrClosed)
	}
	for {
		expired := c.writes.expired()
		if err := c.stopped(expired); err != nil {
			return written, c.fault("write", err)
		}
		if written == len(p) {
			return written, nil
		}
		n, err, changed := c.out.tryWrite(p[written:], !c.in.isHeld())
		if err != nil {
			return written, c.fault("write", err)
		}
		if written += n; changed != nil {
			c.wait(changed, time.Time{}, expired)
		}
	}
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.reads.set(time.Time{})
		c.writes.set(time.Time{})
		c.out.end()
		c.in.unread()
		c.net.forget(c)
	})
	return nil
}

// forget drops a connection that both ends have closed.
func (n *Net) forget(c *conn) {
	c.out.mu.Lock()
	gone := c.out.deaf
	c.out.mu.Unlock()
	if gone {
		n.mu.Lock()
		delete(n.conns, c.listed)
		n.mu.Unlock()
	}
}

func (c *conn) reset() {
	c.in.fail()
	c.out.fail()
}

func (c *conn) SetDeadline(t time.Time) error {
	c.reads.set(t)
	c.writes.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.reads.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writes.set(t)
	return nil
}

// deadline closes a channel at a time that can be changed.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	done  chan struct{}
}

func (d *deadline) expired() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

// set replaces the channel only if it is closed or about to be closed, so that an operation in progress sees
// the new time.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.done // the timer's function closes it now, or has closed it
	}
	d.timer = nil
	select {
	case <-d.done:
		d.done = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		done := d.done
		d.timer = time.AfterFunc(left, func() { close(done) })
	} else {
		close(d.done)
	}
}
