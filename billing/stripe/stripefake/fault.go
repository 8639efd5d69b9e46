package stripefake

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// FaultKind says how a request fails.
type FaultKind int

// The kinds of faults.
const (
	LoseResponse  FaultKind = iota + 1 // the request has its effect, then its connection is closed without a response
	LoseRequest                        // the connection is closed without an effect
	RateLimit                          // 429 with Retry-After
	InternalError                      // 500 without an effect
	Hold                               // the request waits for Release before its effect
)

// Fault makes requests fail.
type Fault struct {
	Kind       FaultKind
	Route      string // pattern of a route, such as "POST /v1/invoices/{id}/pay"; "" = every route
	Skip       int    // number of matching requests that succeed first
	Times      int    // number of requests that fail; 0 = 1
	RetryAfter time.Duration
	Release    <-chan struct{} // of a Hold
}

// drops reports whether the connection is closed before the request has an effect.
func (f *Fault) drops() bool { return f != nil && f.Kind == LoseRequest }

// Inject adds a fault. Of several faults that match a request, the first one that does not skip it applies.
func (s *Server) Inject(f Fault) {
	f.Times = max(f.Times, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal removes all faults that Inject has added.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Outage makes all requests fail with 503 for a time.
func (s *Server) Outage(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outage = s.cfg.Now().Add(d)
}

// meet records a request and returns the fault that it meets, or a response that the fault is.
func (s *Server) meet(r *http.Request, pattern string) (*Fault, *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	if s.cfg.Now().Before(s.outage) {
		return nil, (&failure{status: http.StatusServiceUnavailable, kind: "api_error", message: "Stripe is unavailable."}).answer()
	}
	var met *Fault
	for _, f := range s.faults {
		switch {
		case f.Times == 0 || f.Route != "" && f.Route != pattern:
			continue
		case f.Skip > 0:
			f.Skip--
			continue
		}
		if met == nil {
			f.Times--
			met = f
		}
	}
	if met == nil {
		return nil, nil
	}
	switch met.Kind {
	case RateLimit:
		limited := &failure{status: http.StatusTooManyRequests, kind: "invalid_request_error", code: "rate_limit", message: "Too many requests."}
		limited.retryAfter = fmt.Sprint(int64(met.RetryAfter / time.Second))
		return nil, limited.answer()
	case InternalError:
		return nil, (&failure{status: http.StatusInternalServerError, kind: "api_error", message: "An unknown error occurred."}).answer()
	}
	return met, nil
}

// lock lets one request at a time use a resource, as Stripe does for meter events of a customer and meter.
func (s *Server) lock(resource string) (unlock func(), err *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[resource] {
		return nil, &failure{
			status: http.StatusTooManyRequests, kind: "invalid_request_error", code: "lock_timeout",
			message: "This object cannot be accessed right now because another API request is currently accessing it.",
		}
	}
	s.busy[resource] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, resource)
	}, nil
}

// Clock is a clock that stands until it is advanced.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a clock that shows a time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
