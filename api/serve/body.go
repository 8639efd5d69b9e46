package serve

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
)

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ReadBody returns the whole body of the request, nil if it has none. Only a route's handler may call it. The
// error is PAYLOAD_TOO_LARGE if the body is larger than the route's MaxBody. It is PARSE_ERROR if the body
// ends early or does not arrive within Config.BodyTimeout, counted from the start of ReadBody. The caller
// owns the result.
func ReadBody(r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	if err := readBody(r, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// DecodeJSON decodes the body of the request into v, as ReadBody and Decode do. Later requests reuse the
// buffer of the body, which is safe because v keeps no part of the body.
func DecodeJSON(r *http.Request, v any) error {
	b := bodies.Get().(*bytes.Buffer)
	defer func() {
		if b.Cap() <= keepBuffer {
			b.Reset()
			bodies.Put(b)
		}
	}()
	if err := readBody(r, b); err != nil {
		return err
	}
	return Decode(r, b.Bytes(), v)
}

func readBody(r *http.Request, into *bytes.Buffer) error {
	if !hasBody(r) {
		return nil
	}
	c := callOf(r.Context())
	if c == nil || c.endpoint == nil {
		return errors.New("a body is read outside of a route's handler")
	}
	limit := c.endpoint.MaxBody
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	c.bodyDeadline(time.Now().Add(c.server.bodyTimeout))
	if r.ContentLength > 0 {
		// The extra bytes let ReadFrom see the end without growing the buffer again.
		into.Grow(int(min(r.ContentLength, keepBuffer)) + bytes.MinRead)
	}
	c.limited = io.LimitedReader{R: r.Body, N: limit + 1}
	n, err := into.ReadFrom(&c.limited)
	switch {
	case err == nil && n <= limit:
		// Remove the deadline, because a handler may run for longer than the body may take to arrive. After a
		// failure it stays, because net/http reads on.
		c.bodyDeadline(time.Time{})
		return nil
	case err == nil:
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return api.Errorf(api.ParseError, "the body did not arrive within %s", c.server.bodyTimeout)
	default:
		return api.Wrap(err, api.ParseError, "the body broke off: send all that Content-Length announces")
	}
}

func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// bodyDeadline sets the deadline for the arrival of the body; the zero time removes it. It does nothing for
// writers without deadlines, such as those of tests.
func (c *call) bodyDeadline(at time.Time) {
	c.bodyTimed = true
	_ = http.NewResponseController(c.ResponseWriter).SetReadDeadline(at)
}

func tooLarge(limit int64) error {
	e := api.Errorf(api.PayloadTooLarge, "the body is larger than %d bytes", limit)
	e.Details = map[string]any{"max_bytes": limit}
	return e
}
