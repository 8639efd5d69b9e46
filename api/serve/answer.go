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

// internalMessage is all a client learns of a fault of ours.
const internalMessage = "internal error: the server's log tells more under request id %s"

// clientGone is the status under which a request is counted whose client did
// not wait for the answer. It is never sent.
const clientGone = 499

// keepBuffer is the largest buffer kept for the next answer or body, in bytes.
const keepBuffer = 64 << 10

// jsonType is the value of Content-Type, shared by all answers.
var jsonType = []string{"application/json"}

// encoder is a buffer with its JSON encoder, kept for reuse.
type encoder struct {
	bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.Buffer)
	e.json.SetEscapeHTML(false) // answers are no HTML, and payloads stay as they were
	return e
}}

func (e *encoder) free() {
	if e.Cap() <= keepBuffer {
		e.Reset()
		encoders.Put(e)
	}
}

// WriteJSON answers with v as JSON. It encodes all of v before the first byte
// goes out, so an error of encoding still becomes a clean 500. Errors of
// writing are dropped: they mean that the client is gone.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	e := encoders.Get().(*encoder)
	defer e.free()
	if err := e.json.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	// net/http finds the length of short answers itself, and long ones would
	// go out in chunks.
	const short = 2048
	if e.Len() >= short {
		h.Set("Content-Length", strconv.Itoa(e.Len()))
	}
	w.WriteHeader(status)
	_, _ = w.Write(e.Bytes())
	return nil
}

// problem is the body of every answer that is an error.
type problem struct {
	Error   string         `json:"error"`
	Code    api.Code       `json:"code"`
	Details map[string]any `json:"details,omitempty"`
}

// problemOf is the body for an error. Details say whether and when to try
// again.
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

// ceil is d in whole units, rounded up: who waits that long has waited enough.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// refuse is fail for a request that is refused, not one that broke.
func (c *call) refuse(r *http.Request, err error) {
	c.tellRefused(r, err)
	c.fail(r, err)
}

func (c *call) tellRefused(r *http.Request, err error) {
	tell := c.server.refused
	if tell == nil {
		return
	}
	var route *Route
	if c.endpoint != nil {
		route = &c.endpoint.Route
	}
	tell(r, route, c.principal, err)
}

// Refused notes that the handler of a request answers it with an error in a form of its
// own, as would be done if it returned the error, and is what the client may be told.
func Refused(r *http.Request, err error) *api.Error {
	c := callOf(r.Context())
	if c == nil {
		return api.Wrap(err, api.Internal, "internal error")
	}
	c.tellRefused(r, err)
	e, gone := c.judge(err)
	if !gone {
		c.fault(e)
	}
	return e
}

// judge is an error as the client may be told it. What is ours is in the log then; gone
// says that nobody waits for the answer.
func (c *call) judge(err error) (e *api.Error, gone bool) {
	if !errors.As(err, &e) {
		e = api.Wrap(err, api.Internal, fmt.Sprintf(internalMessage, c.requestID()))
	}
	// Whatever failed, failed because the client hung up, or the server is
	// closing: it is answered all the same, for in the second case there is
	// somebody to read it.
	gone = c.Err() != nil
	if e.Code == api.Internal && !gone {
		c.logError("request failed", "error", err, "cause", errors.Unwrap(e))
	}
	return e, gone
}

// fail ends a request with an error: as its answer if none was begun, else by
// cutting the connection.
func (c *call) fail(r *http.Request, err error) {
	e, gone := c.judge(err)
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

// answer answers with an error in the form of the route.
func (c *call) answer(r *http.Request, e *api.Error) {
	if c.endpoint != nil && c.endpoint.Problem != nil {
		c.endpoint.Problem(&c.response, r, e)
		return
	}
	c.problem(e)
}

// problem answers with an error. Nothing may have been written before.
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
		_ = WriteJSON(c, e.Code.Status(), body) // a word and a text always encode
	}
}

// unmatched is the error for a request the mux answered by itself, from the
// status it chose.
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
