package stripefake

import (
	"net/http"
	"time"
)

// keyLife is the time for which an idempotency key is remembered.
const keyLife = 24 * time.Hour

// answer is a response, which is stored under the idempotency key of its request.
type answer struct {
	status     int
	body       []byte
	retryAfter string
	replayed   bool

	request string // method, path and body
	at      time.Time
	running bool
}

// claim returns the stored response of an idempotency key, or nil if the caller must compute it and call settle.
func (s *Server) claim(key, request string) (*answer, *failure) {
	if key == "" {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[key]
	switch {
	case a == nil || !a.running && s.cfg.Now().Sub(a.at) >= keyLife:
		s.answers[key] = &answer{request: request, at: s.cfg.Now(), running: true}
		return nil, nil
	case a.request != request:
		return nil, &failure{status: http.StatusBadRequest, kind: "idempotency_error", message: "Keys for idempotent requests can only be used with the same parameters they were first used with."}
	case a.running:
		return nil, &failure{status: http.StatusConflict, kind: "idempotency_error", code: "idempotency_key_in_use", message: "There is currently another in-progress request using this Idempotent Key."}
	}
	replayed := *a
	replayed.replayed = true
	return &replayed, nil
}

// settle stores the response under the key; nil forgets the key.
func (s *Server) settle(key string, given *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked(key, given)
}

// settleLocked is settle for a caller that holds the mutex. It stores no refusal of parameters and no lack of capacity,
// because Stripe executes such a request again.
func (s *Server) settleLocked(key string, given *answer) {
	a := s.answers[key]
	if a == nil {
		return
	}
	if given == nil || given.status == http.StatusBadRequest || given.status == http.StatusNotFound || given.status == http.StatusTooManyRequests {
		delete(s.answers, key)
		return
	}
	a.status, a.body, a.running = given.status, given.body, false
}
