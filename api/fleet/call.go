package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/telemetry"
)

// maxAnswerBytes bounds an answer that is not a stream.
const maxAnswerBytes = 4 << 20

// Report tells the control plane where this host stands.
func (m *Member) Report(ctx context.Context, r Report) error {
	return m.call(ctx, http.MethodPost, ReportPath, r, nil)
}

// LastUsage is how far the control plane has applied a source's usage.
func (m *Member) LastUsage(ctx context.Context, s billing.Source) (uint64, error) {
	query := url.Values{"namespace": {s.Namespace}, "stream": {s.Stream}, "incarnation": {s.Incarnation}}
	var a UsageAnswer
	err := m.call(ctx, http.MethodGet, UsagePath+"?"+query.Encode(), nil, &a)
	return a.Last, err
}

// SendUsage delivers a frame and answers how far the source's usage is applied
// then. When the outcome is not known it may be sent again: a frame counts once.
func (m *Member) SendUsage(ctx context.Context, f billing.Frame) (uint64, error) {
	var a UsageAnswer
	err := m.call(ctx, http.MethodPost, UsagePath, f, &a)
	return a.Last, err
}

// SetUsageAside delivers a frame that SendUsage refused, of a namespace that is being
// deleted. The control plane applies it if it can, and keeps it aside otherwise.
func (m *Member) SetUsageAside(ctx context.Context, f billing.Frame) (uint64, error) {
	var a UsageAnswer
	err := m.call(ctx, http.MethodPost, AsidePath, f, &a)
	return a.Last, err
}

// call sends one request with the service token. Every error is an *api.Error: the
// control plane's own, or LEADER_UNAVAILABLE when it could not be asked.
func (m *Member) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	token := m.Token()
	if token == "" {
		return api.Errorf(api.LeaderUnavailable, "this member has not joined the control plane yet: try again when it has")
	}
	err := m.send(ctx, method, path, token, in, out)
	var e *api.Error
	if err == nil || errors.As(err, &e) {
		if e != nil && e.Code == api.Unauthorized {
			m.refused(token)
		}
		return err
	}
	return api.Wrap(err, api.LeaderUnavailable, fmt.Sprintf("the control plane cannot be asked now: %v", err))
}

// send is one request and its answer; bearer may be empty.
func (m *Member) send(ctx context.Context, method, path, bearer string, in, out any) error {
	request, err := m.request(ctx, method, path, bearer, in)
	if err != nil {
		return err
	}
	answer, err := m.http.Do(request)
	if err != nil {
		return err // a *url.Error: names method and URL
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return readError(answer)
	}
	// Read to its end, so that the connection is used again.
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes+1))
	if err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	if len(text) > maxAnswerBytes {
		return fmt.Errorf("%s %s: the answer is larger than %d bytes", method, path, maxAnswerBytes)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

func (m *Member) request(ctx context.Context, method, path, bearer string, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("%s %s: encode the request: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, m.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	if parent := telemetry.Traceparent(ctx); parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	return r, nil
}

// problem is the body of every answer other than success.
type problem struct {
	Error   string         `json:"error"`
	Code    api.Code       `json:"code"`
	Details map[string]any `json:"details"`
}

const (
	maxProblemBytes = 1 << 20
	maxRetryAfterMs = 24 * 3600_000 // a day; more is a mistake
)

// readError is the *api.Error of an answer, also when something between the
// control plane and us made it.
func readError(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxProblemBytes))
	var p problem
	if err != nil || json.Unmarshal(text, &p) != nil || p.Code == "" {
		p = problem{Code: codeOf(answer.StatusCode), Error: fmt.Sprintf("the control plane answered %s without saying why", answer.Status)}
	}
	e := &api.Error{Code: p.Code, Message: p.Error, Details: p.Details}
	// The body is exact, the header in whole seconds.
	if ms, ok := p.Details["retry_after_ms"].(float64); ok && ms > 0 && ms <= maxRetryAfterMs {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	} else if s, err := strconv.ParseInt(answer.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 && s <= maxRetryAfterMs/1000 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// codeOf is the code of an answer that carries none: retryable where the same may
// work later.
func codeOf(status int) api.Code {
	switch {
	case status == http.StatusUnauthorized:
		return api.Unauthorized
	case status == http.StatusForbidden:
		return api.Forbidden
	case status == http.StatusNotFound:
		return api.NotFound
	case status == http.StatusTooManyRequests:
		return api.RateLimited
	case status >= 400 && status < 500:
		return api.ValidationError
	}
	return api.LeaderUnavailable
}
