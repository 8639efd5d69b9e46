package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
)

// The wait before the first retry is at most firstWait. It doubles with each retry up to mostWait, unless the
// server asks for a longer one.
const (
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
)

// drainBytes is the size up to which an unread response is read, so that its connection can be reused.
const drainBytes = 256 << 10

// bodyAhead is the largest buffer that a Content-Length may reserve. For a longer response the buffer grows
// with the received bytes.
const bodyAhead = 4 << 20

// repeat says when a call may be sent again.
type repeat int

const (
	// repeatRefused retries a call without an Idempotency-Key only if the server has refused it with status
	// 429 or with api.DetailUnchanged, because then the server did nothing. A call with a key is retried as with repeatAlways.
	repeatRefused repeat = iota
	// repeatAlways also retries after any other retryable code and if the network failed, because the call
	// changes nothing, or repeating it has no further effect.
	repeatAlways
	// repeatKeyed is repeatRefused, but a Client WithKeyedWrites gives the call an Idempotency-Key if ctx has
	// none.
	repeatKeyed
)

// call is one request: everything that its tries share.
type call struct {
	method string
	path   string // including the query
	body   any    // nil = none
	out    any    // where to decode the response; nil = ignore its body
	repeat repeat
	wait   time.Duration // time that the server may take deliberately, added to the timeout

	ifMatch int64  // required version of the resource; 0 = any
	ifNone  bool   // require that the resource does not exist
	version *int64 // where to store the version in the ETag; nil = nowhere
}

type sleeper func(ctx context.Context, d time.Duration) error

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type idempotencyKey struct{}

// WithIdempotencyKey returns a context whose writes carry the Idempotency-Key, so that the caller may repeat
// a write: for a day, the server answers the repeat as it answered the first one. Use one key for one write
// only; another write with the key gets IDEMPOTENCY_MISMATCH.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}

// do sends the call, retries it if that is allowed and may help, and returns the status of the response.
func (c *Client) do(ctx context.Context, k call) (status int, err error) {
	var body []byte
	if k.body != nil {
		if body, err = json.Marshal(k.body); err != nil {
			return 0, fmt.Errorf("%s %s: encode the request: %w", k.method, k.path, err)
		}
	}
	key, _ := ctx.Value(idempotencyKey{}).(string)
	if k.method == http.MethodGet {
		key = ""
	} else if key == "" && k.repeat == repeatKeyed && c.keyedWrites && c.retries > 0 {
		key = newKey()
	}
	safe := k.repeat == repeatAlways || key != ""
	began := time.Now()
	for try := 0; ; try++ {
		status, err = c.try(ctx, k, body, key)
		if err == nil || !again(err, safe) || ctx.Err() != nil {
			return status, err
		}
		wait := backoff(try, err)
		if !c.hasRetry(try, time.Since(began)+wait, err) {
			return status, err
		}
		if e := c.sleep(ctx, wait); e != nil {
			return status, err
		}
	}
}

// hasRetry reports whether the client's limits allow another try, which would begin after the given time.
func (c *Client) hasRetry(try int, after time.Duration, err error) bool {
	var e *api.Error
	if c.retries > 0 && c.retryTime > 0 && errors.As(err, &e) && e.RetryAfter > 0 {
		return after <= c.retryTime
	}
	return try < c.retries
}

// again reports whether a failed try may be repeated.
func again(err error, safe bool) bool {
	var e *api.Error
	if !errors.As(err, &e) {
		return safe // the network failed, so the outcome is unknown
	}
	// 429 means that nothing was done. After another error that is not certain, unless the server says so.
	return e.Code.Retryable() && (safe || e.Code.Status() == http.StatusTooManyRequests || e.Details[api.DetailUnchanged] == true)
}

// backoff returns the wait before the next try. The wait doubles from firstWait to mostWait. Half of it is
// random, so that clients that were refused together do not return together. The wait is never shorter than
// the RetryAfter of err.
func backoff(try int, err error) time.Duration {
	d := min(firstWait<<min(try, 16), mostWait)
	d = d/2 + mrand.N(d/2+1)
	var e *api.Error
	if errors.As(err, &e) && e.RetryAfter > d {
		d = e.RetryAfter
	}
	return d
}

func newKey() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}

// request builds the HTTP request of a call.
func (c *Client) request(ctx context.Context, k call, body []byte, key string) (*http.Request, error) {
	if err := checkNames(k.path); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, k.method, c.base+k.path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", k.method, k.path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", c.bearer)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if k.ifMatch != 0 {
		req.Header.Set("If-Match", etag(k.ifMatch))
	}
	if k.ifNone {
		req.Header.Set("If-None-Match", "*")
	}
	if c.namespace != "" {
		req.Header.Set(api.NamespaceHeader, c.namespace)
	}
	traced(ctx, req.Header)
	return req, nil
}

// checkNames refuses a path with "." or ".." as a segment: clients and servers resolve these, so that the
// call would reach another route.
func checkNames(path string) error {
	path, _, _ = strings.Cut(path, "?")
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return api.Errorf(api.ValidationError, `nothing can be named %q, which paths cannot hold: any name but "." and ".." will do`, part)
		}
	}
	return nil
}

// selfReader is a result that decodes the response itself. It is not a json.Unmarshaler, because
// json.Unmarshal scans the whole text first to find the end of the value.
type selfReader interface{ read(text []byte) error }

func readAnswer(text []byte, out any) error {
	if own, ok := out.(selfReader); ok {
		return own.read(text)
	}
	return json.Unmarshal(text, out)
}

// try sends the call once.
func (c *Client) try(ctx context.Context, k call, body []byte, key string) (int, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout+k.wait)
		defer cancel()
	}
	req, err := c.request(ctx, k, body, key)
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err // a *url.Error, which names method and URL
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp.StatusCode, readError(resp)
	}
	if k.version != nil {
		*k.version = versionOf(resp.Header.Get("ETag"))
	}
	if k.out == nil || resp.StatusCode == http.StatusNoContent {
		// Best effort: a response that is not read to its end costs its connection.
		io.CopyN(io.Discard, resp.Body, drainBytes)
		return resp.StatusCode, nil
	}
	text, err := readBody(resp)
	if err == nil {
		err = readAnswer(text, k.out)
	}
	if err != nil {
		return resp.StatusCode, fmt.Errorf("%s %s: read the answer: %w", k.method, k.path, err)
	}
	return resp.StatusCode, nil
}

// readBody reads a response to its end, into one buffer if its length is known and at most bodyAhead.
func readBody(resp *http.Response) ([]byte, error) {
	if n := resp.ContentLength; n > 0 && n <= bodyAhead {
		text := make([]byte, n)
		_, err := io.ReadFull(resp.Body, text)
		return text, err
	}
	return io.ReadAll(resp.Body)
}

// problem is the body of every response other than success.
type problem struct {
	Error   string         `json:"error"`
	Code    api.Code       `json:"code"`
	Details map[string]any `json:"details"`
}

const (
	problemBytes    = 1 << 20             // largest body of an error that is read
	maxRetryAfterMs = 365 * 24 * 3600_000 // a year; a larger value is a mistake
)

// readError returns the *api.Error of a response, even if a proxy made the response.
func readError(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, problemBytes))
	var p problem
	if err != nil || json.Unmarshal(body, &p) != nil || p.Code == "" {
		p = problem{Code: codeOfStatus(resp.StatusCode), Error: fmt.Sprintf("the server answered %s without saying why", resp.Status)}
	}
	e := &api.Error{Code: p.Code, Message: p.Error, Details: p.Details}
	// The body is exact; the header has whole seconds.
	if ms, ok := p.Details["retry_after_ms"].(float64); ok && ms > 0 && ms < maxRetryAfterMs {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	} else {
		e.RetryAfter = retryAfter(resp.Header)
	}
	return e
}

// retryAfter returns the wait that the header Retry-After asks for, in seconds or as a date; 0 = none. A date is compared
// with the server's own, because the client's clock may differ.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if s, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(s)*time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	if wait := at.Sub(now); wait > 0 && wait < maxRetryAfterMs*time.Millisecond {
		return wait
	}
	return 0
}

// codeOfStatus returns the code for a response without one, such as a proxy's.
func codeOfStatus(status int) api.Code {
	switch status {
	case http.StatusUnauthorized:
		return api.Unauthorized
	case http.StatusForbidden:
		return api.Forbidden
	case http.StatusNotFound:
		return api.NotFound
	case http.StatusMethodNotAllowed:
		return api.MethodNotAllowed
	case http.StatusRequestEntityTooLarge:
		return api.PayloadTooLarge
	case http.StatusTooManyRequests:
		return api.RateLimited
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return api.LeaderUnavailable
	}
	if status >= 400 && status < 500 {
		return api.ValidationError
	}
	return api.Internal
}
