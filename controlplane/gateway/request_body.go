package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api/fleet"
)

const (
	// MaxRepeatedRequest is the number of bytes of a body that the gateway keeps, so that it can send the
	// request again. After it has read more of a body, it does not send that request again.
	MaxRepeatedRequest = 1 << 20
	// MaxKeptBytes is the number of bytes that the gateway keeps of the bodies of all requests under way. A
	// request whose bytes do not fit is not sent again.
	MaxKeptBytes = 64 << 20
	// firstKept is the most room that is made at first for a kept body.
	firstKept = 4 << 10
)

// errNotKept means that a body cannot be read again.
var errNotKept = errors.New("the body of the request was not kept, so it cannot be sent again")

// room counts the kept bytes of all bodies.
type room struct{ used atomic.Int64 }

// take takes n bytes, or none if they do not fit.
func (r *room) take(n int64) bool {
	if r.used.Add(n) > MaxKeptBytes {
		r.used.Add(-n)
		return false
	}
	return true
}

func (r *room) give(n int64) { r.used.Add(-n) }

// clientBody is the body that a client sends. It counts the bytes read and keeps them until release, so that
// each try of the request reads the body from its beginning. end ends the body before the client does.
type clientBody struct {
	io.ReadCloser
	bytes   atomic.Int64
	broken  atomic.Bool // reading it failed before it was closed
	trailer http.Header // trailer of the request to the host, for a stream; it may change until the body has been read

	reading sync.Mutex // held while a try reads from the client, because an earlier try may still do so

	keeping sync.Mutex
	room    *room
	kept    []byte
	lost    bool  // bytes were read that are not in kept
	err     error // of the read that ended the body, such as io.EOF
	current *bodyTry
	settled bool // no further try will read the body

	mu      sync.Mutex
	control *http.ResponseController // of the connection; nil after the request
	ended   atomic.Bool              // by the gateway
	closed  atomic.Bool              // later reads fail without a fault of the client
}

// try returns the body for the next try of the request. Reads of earlier tries fail from now on.
func (c *clientBody) try() (io.ReadCloser, error) {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	if c.lost {
		return nil, errNotKept
	}
	c.current = &bodyTry{of: c}
	return c.current, nil
}

// fill reads the body ahead while the request waits, as far as its bytes are kept. net/http notices that a client of
// HTTP/1.1 has left only when the client's body has been read. fill ends with the body, the next try or the request.
func (c *clientBody) fill() {
	if c.ReadCloser == nil {
		return
	}
	ahead, err := c.try()
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(ahead, MaxRepeatedRequest)) // the next try returns the error
}

// repeats reports whether the body can be sent again.
func (c *clientBody) repeats() bool {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	return !c.lost && (c.err == nil || c.err == io.EOF)
}

// release gives up the kept bytes. There is no further try.
func (c *clientBody) release() {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	c.settled = true
	c.drop()
}

// drop gives back the kept bytes, and no further ones are kept. The caller holds keeping.
func (c *clientBody) drop() {
	c.room.give(int64(len(c.kept)))
	c.kept, c.lost = nil, true
}

// again reads kept bytes for a try. ok is false if the try must read from the client.
func (c *clientBody) again(b *bodyTry, p []byte) (n int, ok bool, err error) {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	switch {
	case b.closed || b != c.current:
		return 0, true, errNotKept
	case b.at < len(c.kept):
		n = copy(p, c.kept[b.at:])
		b.at += n
		return n, true, nil
	}
	return 0, c.err != nil, c.err
}

// keep keeps the bytes that a try has read from the client, unless they are too many. If a later try has
// begun meanwhile, the bytes are kept in any case, because the later try cannot read them from the client.
func (c *clientBody) keep(b *bodyTry, read []byte, err error) {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	b.at += len(read)
	c.err = err
	if c.lost || len(read) == 0 {
		return
	}
	superseded := b != c.current
	fits := !c.settled && len(c.kept)+len(read) <= MaxRepeatedRequest
	if !superseded && (!fits || !c.room.take(int64(len(read)))) {
		c.drop()
		return
	}
	if superseded {
		c.room.used.Add(int64(len(read)))
	}
	c.kept = append(c.kept, read...)
}

// expect makes room for a body of the given length; -1 = not known.
func (c *clientBody) expect(length int64) {
	if length > 0 && length <= MaxRepeatedRequest {
		c.kept = make([]byte, 0, min(length, firstKept))
	}
}

// read reads from the client.
func (c *clientBody) read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(int64(n))
	if err != nil && c.ended.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		c.trailer.Set(fleet.DrainTrailer, "true")
		return n, io.EOF
	}
	// The error of a read after Close cannot be recognised, because httputil.ReverseProxy returns one of its own.
	if err != nil && err != io.EOF && !c.closed.Load() {
		c.broken.Store(true)
	}
	return n, err
}

// end ends the body for the host, although the client has not ended it. It sets a read deadline, so that the
// waiting or next Read fails. read turns that failure into io.EOF.
func (c *clientBody) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.control != nil {
		c.ended.Store(true)
		_ = c.control.SetReadDeadline(time.Now()) // a writer without deadlines leaves the body to its client
	}
}

// leave gives up the connection, because another request may use it afterwards.
func (c *clientBody) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.control = nil
}

// bodyTry is the body of one try of a request.
type bodyTry struct {
	of *clientBody
	// of.keeping guards these.
	at     int // number of bytes read
	closed bool
}

func (b *bodyTry) Read(p []byte) (int, error) {
	c := b.of
	if n, ok, err := c.again(b, p); ok {
		return n, err
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if n, ok, err := c.again(b, p); ok { // another try has read meanwhile
		return n, err
	}
	n, err := c.read(p)
	c.keep(b, p[:n], err)
	return n, err
}

// Close ends the reads of this try. The transport calls it when the host has failed, perhaps while another goroutine
// reads. It closes the client's body only if there is no further try.
func (b *bodyTry) Close() error {
	c := b.of
	c.keeping.Lock()
	b.closed = true
	settled := c.settled
	c.keeping.Unlock()
	if !settled {
		return nil
	}
	c.closed.Store(true)
	return c.ReadCloser.Close()
}
