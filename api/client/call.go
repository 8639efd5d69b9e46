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

// Bounds of the wait between tries where the server names none.
const (
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
)

// drainBytes is how much of an unread answer is read to keep its connection.
const drainBytes = 256 << 10

// bodyAhead is how much memory an answer gets because it says that it is so long; a
// longer one gets it as it comes.
const bodyAhead = 4 << 20

// repeat says when a call may be sent again.
type repeat int

const (
	// repeatRefused repeats only what the server says it has refused.
	repeatRefused repeat = iota
	// repeatAlways repeats also when the outcome is not known: the call changes
	// nothing, or the same effect twice is the same as once.
	repeatAlways
	// repeatKeyed is repeatAlways with an Idempotency-Key, else repeatRefused.
	repeatKeyed
)

// call is one request with everything its tries share.
type call struct {
	method string
	path   string // with its query
	body   any    // nil: none
	out    any    // nil: the answer's body is not wanted
	repeat repeat
	wait   time.Duration // what the server may take on purpose

	ifMatch int64  // resource version the call insists on; 0: none
	ifNone  bool   // the call insists on it that there is none
	version *int64 // where the version goes that the answer's ETag says; nil: it is not wanted
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

// WithIdempotencyKey makes the writes called with the context carry the key, so
// that the caller may repeat them itself: a repeat answers as the first did.
// One key is for one write.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}

// do sends the call, again where that is allowed and may help, and returns the
// status of the answer.
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
	for try := 0; ; try++ {
		status, err = c.try(ctx, k, body, key)
		if err == nil || try >= c.retries || !again(err, safe) || ctx.Err() != nil {
			return status, err
		}
		if e := c.sleep(ctx, backoff(try, err)); e != nil {
			return status, err
		}
	}
}

// again says whether a failed try may be repeated.
func again(err error, safe bool) bool {
	var e *api.Error
	if !errors.As(err, &e) {
		return safe // the network failed: the outcome is not known
	}
	// 429 is a refusal: nothing was done. After other errors that is not certain.
	return e.Code.Retryable() && (safe || e.Code.Status() == http.StatusTooManyRequests)
}

// backoff doubles from firstWait to mostWait, with half of it at random so that
// clients refused together do not come back together, and is never less than
// the server asked for.
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

// request is the call with what all of the client's requests carry.
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

// checkNames refuses a path that holds what no path can: clients and servers take "." and
// ".." out of it, so that the answer would be about something else.
func checkNames(path string) error {
	path, _, _ = strings.Cut(path, "?")
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return api.Errorf(api.ValidationError, `nothing can be named %q, which paths cannot hold: any name but "." and ".." will do`, part)
		}
	}
	return nil
}

// selfRead is an answer that reads its own text, which json.Unmarshal would go over once
// more for a json.Unmarshaler, to find its end.
type selfRead interface{ read(text []byte) error }

func readAnswer(text []byte, out any) error {
	if own, ok := out.(selfRead); ok {
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
		return 0, err // a *url.Error: names method and URL
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp.StatusCode, readError(resp)
	}
	if k.version != nil {
		*k.version = versionOf(resp.Header.Get("ETag"))
	}
	if k.out == nil || resp.StatusCode == http.StatusNoContent {
		// Best effort: an answer that is not read to its end costs its connection.
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

// readBody reads an answer to its end, at once where it says how long it is.
func readBody(resp *http.Response) ([]byte, error) {
	if n := resp.ContentLength; n > 0 && n <= bodyAhead {
		text := make([]byte, n)
		_, err := io.ReadFull(resp.Body, text)
		return text, err
	}
	return io.ReadAll(resp.Body)
}

// problem is the body of every answer other than success.
type problem struct {
	Error   string         `json:"error"`
	Code    api.Code       `json:"code"`
	Details map[string]any `json:"details"`
}

const (
	problemBytes    = 1 << 20             // of an error's body
	maxRetryAfterMs = 365 * 24 * 3600_000 // a year; more is a mistake
)

// readError makes the *api.Error of an answer, also when something between the
// server and us made it.
func readError(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, problemBytes))
	var p problem
	if err != nil || json.Unmarshal(body, &p) != nil || p.Code == "" {
		p = problem{Code: codeOfStatus(resp.StatusCode), Error: fmt.Sprintf("the server answered %s without saying why", resp.Status)}
	}
	e := &api.Error{Code: p.Code, Message: p.Error, Details: p.Details}
	// The body is exact, the header in whole seconds.
	if ms, ok := p.Details["retry_after_ms"].(float64); ok && ms > 0 && ms < maxRetryAfterMs {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	} else if s, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// codeOfStatus is the code of an answer that carries none, such as a proxy's.
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
