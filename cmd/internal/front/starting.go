package front

import (
	"net/http"
	"sync/atomic"
)

// Starting serves HTTP while a process is still opening: a member that waits for others to form a cluster is
// alive but not ready, because an orchestrator that starts each member only after the previous one is alive
// would never start the second. The zero Starting is ready for use.
type Starting struct {
	opened atomic.Pointer[Opened]
}

// Opened is a process that serves requests.
type Opened interface {
	Handler() http.Handler
	Drain()
}

// Open passes all further requests to the process.
func (s *Starting) Open(o Opened) { s.opened.Store(&o) }

// Drain drains the process, if it is open.
func (s *Starting) Drain() {
	if o := s.opened.Load(); o != nil {
		(*o).Drain()
	}
}

// startingRetry is the Retry-After of a process that is still opening.
const startingRetry = "1" // seconds

func (s *Starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if o := s.opened.Load(); o != nil {
		(*o).Handler().ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	body := `{"error":"this process is starting or waits for its cluster: nothing was done, try again or ask another member","code":"LEADER_UNAVAILABLE","details":{"retry_after_ms":1000,"retryable":true,"unchanged":true}}`
	if r.URL.Path == "/healthz" {
		body = `{"status":"ok","checks":{"cluster":"starting or waiting for others"}}`
	} else {
		w.Header().Set("Retry-After", startingRetry)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(body)) // an error means that the client is gone
}
