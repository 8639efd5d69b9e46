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

// maxAnswerBytes limits a response that is not a stream.
const maxAnswerBytes = 4 << 20

// Report sends one report to the control plane; a Reporter makes those of a host. Every error of Report and of the calls
// below is an *api.Error. It is LEADER_UNAVAILABLE if the member has not joined yet or no process of the control plane
// answers.
func (m *Member) Report(ctx context.Context, r Report) (answer ReportAnswer, err error) {
	err = m.call(ctx, http.MethodPost, ReportPath, r, &answer)
	return answer, err
}

// LastUsage returns the last number of a source's usage that the control plane has applied or set aside; 0 =
// none.
func (m *Member) LastUsage(ctx context.Context, s billing.Source) (uint64, error) {
	query := url.Values{"namespace": {s.Namespace}, "stream": {s.Stream}, "incarnation": {s.Incarnation}}
	var a UsageAnswer
	err := m.call(ctx, http.MethodGet, UsagePath+"?"+query.Encode(), nil, &a)
	return a.Last, err
}

// SendUsage delivers a frame. It returns the last number of the source's usage that is then applied or set
// aside. After an error the caller may send the frame again, because the control plane counts a frame once.
// The error is STATE_CONFLICT if the frame does not follow the usage that the control plane has: the numbers
// leave a gap or overlap.
func (m *Member) SendUsage(ctx context.Context, f billing.Frame) (uint64, error) {
	var a UsageAnswer
	err := m.call(ctx, http.MethodPost, UsagePath, f, &a)
	return a.Last, err
}

// SetUsageAside delivers a frame that SendUsage refused. Only a host may call it, and only for a namespace
// that is being deleted. The control plane applies the frame if it can, and otherwise sets it aside. The
// result is that of SendUsage. An error means that the frame was neither applied nor set aside, or that no
// answer came.
func (m *Member) SetUsageAside(ctx context.Context, f billing.Frame) (uint64, error) {
	var a UsageAnswer
	err := m.call(ctx, http.MethodPost, AsidePath, f, &a)
	return a.Last, err
}

// call sends one request with the service token. Every error is an *api.Error: the one in the response, or
// LEADER_UNAVAILABLE if there is no token or no response that can be read.
func (m *Member) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	token := m.Token()
	if token == "" {
		return api.Errorf(api.LeaderUnavailable, "this member has not joined the control plane yet: try again when it has")
	}
	err := explained(m.send(ctx, method, path, token, in, out))
	var e *api.Error
	if err == nil || errors.As(err, &e) {
		if e != nil && e.Code == api.Unauthorized {
			m.refused(token)
		}
		m.fence.check(err)
		return err
	}
	return api.Wrap(err, api.LeaderUnavailable, fmt.Sprintf("the control plane cannot be asked now: %v", err))
}

// send sends one request and decodes the response. bearer may be empty. If a process of the control plane is
// away, starts, stops or reaches no leader, send asks the next one, with at most one try for each process.
// That is safe, because all requests of members may be repeated.
func (m *Member) send(ctx context.Context, method, path, bearer string, in, out any) error {
	for asked := 1; ; asked++ {
		at, base := m.endpoints.Current()
		err := m.sendTo(ctx, base, method, path, bearer, in, out)
		if err == nil || !leaves(err) {
			return err
		}
		m.endpoints.Leave(at)
		if asked >= m.endpoints.Len() || ctx.Err() != nil {
			return err
		}
	}
}

// leaves reports whether the member should go on with another process after err: there was no response, or its
// code says that another process may serve the request.
func leaves(err error) bool {
	var e *api.Error
	return !errors.As(err, &e) || Elsewhere(e.Code)
}

// sendTo sends one request to one process, which has an equal share of the time for a call.
func (m *Member) sendTo(ctx context.Context, base *url.URL, method, path, bearer string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout/time.Duration(m.endpoints.Len()))
	defer cancel()
	request, err := m.request(ctx, base, method, path, bearer, in)
	if err != nil {
		return err
	}
	to := m.http
	if path == JoinPath {
		to = m.joining
	}
	answer, err := to.Do(request)
	if err != nil {
		return err // a *url.Error, which names method and URL
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return readError(answer)
	}
	// Read to the end, so that the connection is reused.
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

func (m *Member) request(ctx context.Context, base *url.URL, method, path, bearer string, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("%s %s: encode the request: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, base.String()+path, body)
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

// problem is the body of every response other than success.
type problem struct {
	Error   string         `json:"error"`
	Code    api.Code       `json:"code"`
	Details map[string]any `json:"details"`
}

const (
	maxProblemBytes = 1 << 20
	maxRetryAfterMs = 24 * 3600_000 // a day; a larger one is a mistake
)

// readError returns the *api.Error of a response, even if a proxy on the way made the response.
func readError(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxProblemBytes))
	var p problem
	if err != nil || json.Unmarshal(text, &p) != nil || p.Code == "" {
		p = problem{Code: codeOf(answer.StatusCode), Error: fmt.Sprintf("the control plane answered %s without saying why", answer.Status)}
	}
	e := &api.Error{Code: p.Code, Message: p.Error, Details: p.Details}
	// The body is exact; the header has whole seconds.
	if ms, ok := p.Details["retry_after_ms"].(float64); ok && ms > 0 && ms <= maxRetryAfterMs {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	} else if s, err := strconv.ParseInt(answer.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 && s <= maxRetryAfterMs/1000 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// codeOf returns the code for a response without one. It is retryable if the same request may succeed
// later.
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
