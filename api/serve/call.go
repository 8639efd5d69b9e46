package serve

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// MaxRequestID is the largest number of characters of a request id from a client. A longer id is replaced.
const MaxRequestID = 64

// call is one request: its context and its response writer, in one allocation. It is not reused, because a
// handler may leave goroutines behind that hold its context.
type call struct {
	context.Context // the request's, with its span
	response
	server    *server
	endpoint  *endpoint // nil until the mux has matched one
	principal tenancy.Principal
	start     time.Time
	bodyTimed bool             // a deadline was set for the body
	limited   io.LimitedReader // the body, up to its limit
	headers   [2]string        // values of X-Request-Id and Server-Timing
	asked     http.Header      // headers of the request

	refusal api.Code    // of the error that the client gets; "" = none
	changed atomic.Bool // see Changed

	span        trace.Span // nil = not recorded
	spanDropped bool       // the span must not be sent
	faulted     bool       // the span has the reason of the failure
}

// callKey is the context key of the call.
type callKey struct{}

func newCall(s *server, w http.ResponseWriter, r *http.Request) *call {
	c := &call{Context: r.Context(), server: s, start: time.Now(), asked: r.Header}
	c.response = response{ResponseWriter: w, call: c}
	if given := r.Header["X-Request-Id"]; len(given) == 1 && validRequestID(given[0]) {
		c.headers[0] = given[0]
	} else {
		c.headers[0] = newRequestID()
	}
	w.Header()["X-Request-Id"] = c.headers[0:1:1]
	return c
}

// Value returns the call itself for callKey.
func (c *call) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c
	}
	return c.Context.Value(key)
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// Principal returns the caller of the request of ctx. Outside of a request, and on Open routes, it returns
// the zero Principal, which has no permission.
func Principal(ctx context.Context) tenancy.Principal {
	if c := callOf(ctx); c != nil {
		return c.principal
	}
	return tenancy.Principal{}
}

// Called returns the caller of the request of ctx and the route that it matched. Outside of a request, and
// without a matched route, it returns the zero Principal and nil.
func Called(ctx context.Context) (tenancy.Principal, *Route) {
	c := callOf(ctx)
	if c == nil || c.endpoint == nil {
		return tenancy.Principal{}, nil
	}
	return c.principal, &c.endpoint.Route
}

// RequestID returns the X-Request-Id of the request of ctx, or "" outside of a request.
func RequestID(ctx context.Context) string {
	if c := callOf(ctx); c != nil {
		return c.requestID()
	}
	return ""
}

// Changed records that the request of ctx has changed something, or may have. Any goroutine may call it.
func Changed(ctx context.Context) {
	if c := callOf(ctx); c != nil {
		c.changed.Store(true)
	}
}

// Credential returns the bearer token of Authorization, or else X-API-Key, or else "".
func Credential(r *http.Request) string {
	const bearer = "bearer "
	if given := r.Header["Authorization"]; len(given) > 0 { // as Get does, but without canonicalising the name each time
		if a := given[0]; len(a) >= len(bearer) && strings.EqualFold(a[:len(bearer)], bearer) {
			return strings.TrimSpace(a[len(bearer):])
		}
	}
	return r.Header.Get("X-Api-Key")
}

func (c *call) requestID() string { return c.headers[0] }

// name returns the name of the route for the log.
func (c *call) name() string {
	if c.endpoint == nil {
		return "unmatched"
	}
	return c.endpoint.pattern()
}

// validRequestID reports whether a request id of a client is safe in logs and headers.
func validRequestID(id string) bool {
	if id == "" || len(id) > MaxRequestID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// newRequestID generates a request id of 128 random bits, the size of a trace id. It protects nothing, so
// a fast generator that can be guessed is enough.
func newRequestID() string {
	var bits [16]byte
	binary.LittleEndian.PutUint64(bits[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(bits[8:], rand.Uint64())
	var text [32]byte
	hex.Encode(text[:], bits[:])
	return string(text[:])
}
