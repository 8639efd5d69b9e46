package server

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

const (
	// DefaultMaxBodies bounds the bytes of the request bodies that are processed at once. The decoded
	// requests that wait for their commit need a few times as much memory.
	DefaultMaxBodies = 128 << 20
	// DefaultMaxSearches bounds the searches and lists that run at once. They share few connections to the
	// view. Without this bound they would queue up, each with a page in memory, while acks wait for the
	// processor.
	DefaultMaxSearches = 32
	// overloadRetry is the Retry-After of a request that was refused for lack of room.
	overloadRetry = time.Second
)

// budget bounds the amount of something that may be in use at once.
type budget struct {
	most    int64
	used    atomic.Int64
	refused atomic.Uint64
}

// take takes n and returns true if n fits. If it does not, take counts a refusal and returns false.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.most {
		b.used.Add(-n)
		b.refused.Add(1)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// admitting refuses a request with OVERLOADED, before it reads the body, if the body does not fit beside the
// other bodies in flight. A body without a length counts with the bound of its route. admitting never makes a
// request wait.
func (s *Server) admitting(route serve.Route) serve.Handler {
	most := route.MaxBody
	if most == 0 {
		most = bodyManage
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		size := r.ContentLength
		if size < 0 { // the length is not given
			size = most
		}
		if size == 0 || size > most { // no body, or one that the handler refuses by its length
			return route.Handler(w, r)
		}
		if !s.bodies.take(size) {
			err := api.Errorf(api.Overloaded, "this server has %d bytes of requests in hand, and %d more do not fit into the %d it takes: try again later, with smaller batches or fewer at once", s.bodies.used.Load(), size, s.bodies.most)
			err.RetryAfter = overloadRetry
			return err
		}
		held := &heldBody{ReadCloser: r.Body, of: &s.bodies, size: size, waits: waits(route)}
		defer held.release()
		r.Body = held
		return route.Handler(w, r)
	}
}

// waits reports whether a route's requests may be parked. Their bodies have been read by then, and a hundred
// thousand waiting polls must not keep other requests out.
func waits(route serve.Route) bool { return strings.HasPrefix(route.Path, "/api/v1/fetch") }

// heldBody is a body that counts against a budget.
type heldBody struct {
	io.ReadCloser
	of       *budget
	size     int64
	waits    bool // true: it counts until it has been read; false: until its request ends
	released bool
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.waits {
		b.release()
	}
	return n, err
}

// release ends the counting. Only the handler's goroutine reads the body and calls release, so there is no
// lock.
func (b *heldBody) release() {
	if !b.released {
		b.released = true
		b.of.give(b.size)
	}
}

// searching answers OVERLOADED if Config.MaxSearches searches and lists are running already.
func (s *Server) searching(h serve.Handler) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !s.searches.take(1) {
			err := api.Errorf(api.Overloaded, "%d searches and lists are in progress, the maximum: try again later", s.searches.most)
			err.RetryAfter = overloadRetry
			return err
		}
		defer s.searches.give(1)
		return h(w, r)
	}
}
