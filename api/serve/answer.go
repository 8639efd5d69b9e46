package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
)

// internalMessage is all that a client learns of an internal error.
const internalMessage = "internal error: see the server's log for request id %s"

// clientGone is the status in metrics of a request whose client did not wait for the response. It is never
// sent.
const clientGone = 499

// keepBuffer is the size in bytes of the largest buffer that is reused.
const keepBuffer = 64 << 10

// jsonType is the value of Content-Type, shared by all responses.
var jsonType = []string{"application/json"}

// encoder is a reusable buffer with its JSON encoder.
type encoder struct {
	bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.Buffer)
	e.json.SetEscapeHTML(false) // responses are not HTML, and payloads must stay unchanged
	return e
}}

func (e *encoder) free() {
	if e.Cap() <= keepBuffer {
		e.Reset()
		encoders.Put(e)
	}
}

// WriteJSON writes v as a JSON response. It encodes all of v before it sends the first byte, so that a
// handler that returns the encoding error still answers 500. It ignores errors of writing, because they mean
// that the client is gone.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	e := encoders.Get().(*encoder)
	defer e.free()
	if err := e.json.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	// net/http sets the length of short responses itself, but would send long ones in chunks.
	const short = 2048
	if e.Len() >= short {
		h.Set("Content-Length", strconv.Itoa(e.Len()))
	}
	w.WriteHeader(status)
	_, _ = w.Write(e.Bytes())
	return nil
}

// problem is the body of an error response, unless the route's Problem writes another form.
type problem struct {
	Error   string         `json:"error"`
	Code    api.Code       `json:"code"`
	Details map[string]any `json:"details,omitempty"`
}

// problemOf returns the body for an error. If the error is retryable, it adds retryable and retry_after_ms to
// a copy of the details.
func problemOf(e *api.Error) problem {
	p := problem{Error: e.Message, Code: e.Code, Details: e.Details}
	if !e.Code.Retryable() {
		return p
	}
	p.Details = make(map[string]any, len(e.Details)+2)
	for k, v := range e.Details {
		p.Details[k] = v
	}
	p.Details["retryable"] = true
	if e.RetryAfter > 0 {
		p.Details["retry_after_ms"] = ceil(e.RetryAfter, time.Millisecond)
	}
	return p
}

// ceil returns d in whole units, rounded up so that a client never waits too short a time.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// refuse reports a refused request to Config.Refused and ends it with the error.
func (c *call) refuse(r *http.Request, err error) {
	c.notifyRefused(r, err)
	c.fail(r, err)
}

func (c *call) notifyRefused(r *http.Request, err error) {
	notify := c.server.refused
	if notify == nil {
		return
	}
	var route *Route
	if c.endpoint != nil {
		route = &c.endpoint.Route
	}
	notify(r, route, c.principal, err)
}

// Refused records an error that a handler answers in its own form: it calls Config.Refused, logs an internal
// error and marks the span, as for an error that a handler returns. Refused returns the error that the client
// may see. Outside of a request that error is always INTERNAL, and nothing is recorded.
func Refused(r *http.Request, err error) *api.Error {
	c := callOf(r.Context())
	if c == nil {
		return api.Wrap(err, api.Internal, "internal error")
	}
	c.notifyRefused(r, err)
	e, gone := c.clientError(err)
	if !gone {
		c.fault(e)
	}
	return e
}

// clientError returns the error that the client may see. It logs an internal error. gone reports that the
// client does not wait for the response.
func (c *call) clientError(err error) (e *api.Error, gone bool) {
	if !errors.As(err, &e) {
		e = api.Wrap(err, api.Internal, fmt.Sprintf(internalMessage, c.requestID()))
	}
	c.refusal = e.Code
	// A cancelled context means that the client left or that the server is shutting down. In the second
	// case a client still reads the response, so it is always written.
	gone = c.Err() != nil
	if e.Code == api.Internal && !gone {
		c.logError("request failed", "error", err, "cause", errors.Unwrap(e))
	}
	return e, gone
}

// fail ends a request with an error. If no response has begun, the error becomes the response. If one has,
// fail panics with http.ErrAbortHandler to cut the connection.
func (c *call) fail(r *http.Request, err error) {
	e, gone := c.clientError(err)
	if c.claimed && c.status != 0 {
		panic(http.ErrAbortHandler)
	}
	c.claimed = true
	c.status = 0
	if !gone {
		c.fault(e)
	}
	c.answer(r, e)
	if gone {
		c.status = clientGone
	}
}

// answer writes an error in the form of the route.
func (c *call) answer(r *http.Request, e *api.Error) {
	if c.endpoint != nil && c.endpoint.Problem != nil {
		c.endpoint.Problem(&c.response, r, e)
		return
	}
	c.problem(e)
}

// problem writes an error as a problem response. Nothing may have been written before.
func (c *call) problem(e *api.Error) {
	h := c.Header()
	if e.Code.Retryable() && e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(ceil(e.RetryAfter, time.Second), 10))
	}
	if e.Code == api.Unauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body := problemOf(e)
	if err := WriteJSON(c, e.Code.Status(), body); err != nil {
		c.logError("details of an error cannot be encoded", "code", e.Code, "error", err)
		body.Details = nil
		_ = WriteJSON(c, e.Code.Status(), body) // a code and a message can always be encoded
	}
}

// unmatched returns the error for a request that the mux answered itself, based on the status of the mux.
func (c *call) unmatched(r *http.Request) *api.Error {
	h := c.Header()
	h.Del("Content-Type")
	h.Del("X-Content-Type-Options")
	h.Del("Location")
	if c.status == http.StatusMethodNotAllowed {
		return api.Errorf(api.MethodNotAllowed, "%s is not a method of %s: use %s", r.Method, r.URL.EscapedPath(), h.Get("Allow"))
	}
	return api.Errorf(api.NotFound, "no route %s %s", r.Method, r.URL.EscapedPath())
}
