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

// ReadBody is the whole body of the request, at most the route's MaxBody
// (PAYLOAD_TOO_LARGE beyond, PARSE_ERROR if it breaks off or does not arrive in
// time). The caller owns the result.
func ReadBody(r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	if err := readBody(r, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// DecodeJSON reads the body of the request into v as Decode does. It is
// ReadBody and Decode without a copy.
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
		// The extra room lets ReadFrom see the end without growing once more.
		into.Grow(int(min(r.ContentLength, keepBuffer)) + bytes.MinRead)
	}
	c.limited = io.LimitedReader{R: r.Body, N: limit + 1}
	n, err := into.ReadFrom(&c.limited)
	switch {
	case err == nil && n <= limit:
		// A handler may go on for longer than its body was given. After a
		// failure the deadline stays, for net/http reads on.
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

// bodyDeadline sets until when the body may arrive. Writers that know no
// deadlines, such as those of tests, go without.
func (c *call) bodyDeadline(at time.Time) {
	c.bodyTimed = true
	_ = http.NewResponseController(c.ResponseWriter).SetReadDeadline(at)
}

func tooLarge(limit int64) error {
	e := api.Errorf(api.PayloadTooLarge, "the body is larger than %d bytes", limit)
	e.Details = map[string]any{"max_bytes": limit}
	return e
}
