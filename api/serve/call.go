package serve

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/tenancy"
)

// MaxRequestID is the most characters of a request id taken from a client.
const MaxRequestID = 64

// call is one request under way: its context, and its answer. All that a
// request needs beyond net/http's own is this one allocation. It is not reused,
// for a handler may leave goroutines behind that hold its context.
type call struct {
	context.Context // of the connection, with the request's span
	response
	server    *server
	endpoint  *endpoint // nil until the mux has matched one
	principal tenancy.Principal
	start     time.Time
	bodyTimed bool             // a deadline was set for the body
	limited   io.LimitedReader // the body, as far as it is read
	headers   [2]string        // values of X-Request-Id and Server-Timing
	asked     http.Header      // of the request

	span        trace.Span // nil = none is recorded
	spanDropped bool       // it is not to be sent
	faulted     bool       // the span says why the request failed
}

// callKey is the context key of the call itself.
type callKey struct{}

func newCall(s *server, w http.ResponseWriter, r *http.Request) *call {
	c := &call{Context: r.Context(), server: s, start: time.Now(), asked: r.Header}
	c.response = response{ResponseWriter: w, call: c}
	if given := r.Header["X-Request-Id"]; len(given) == 1 && saneID(given[0]) {
		c.headers[0] = given[0]
	} else {
		c.headers[0] = mintID()
	}
	w.Header()["X-Request-Id"] = c.headers[0:1:1]
	return c
}

// Value finds the call in its own context.
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

// Principal is who sends the request of ctx. Outside of a request, and on Open
// routes, it is the zero Principal, which may do nothing.
func Principal(ctx context.Context) tenancy.Principal {
	if c := callOf(ctx); c != nil {
		return c.principal
	}
	return tenancy.Principal{}
}

// Called is Principal, and the route that the request has been matched to; nil
// outside of one.
func Called(ctx context.Context) (tenancy.Principal, *Route) {
	c := callOf(ctx)
	if c == nil || c.endpoint == nil {
		return tenancy.Principal{}, nil
	}
	return c.principal, &c.endpoint.Route
}

// RequestID is the X-Request-Id of the request of ctx, "" outside of one.
func RequestID(ctx context.Context) string {
	if c := callOf(ctx); c != nil {
		return c.requestID()
	}
	return ""
}

// Credential is what a request presents as its credential: the bearer token of
// Authorization, else X-API-Key; "" where there is neither.
func Credential(r *http.Request) string {
	const bearer = "bearer "
	if given := r.Header["Authorization"]; len(given) > 0 { // as Get answers it, which spells the name anew
		if a := given[0]; len(a) >= len(bearer) && strings.EqualFold(a[:len(bearer)], bearer) {
			return strings.TrimSpace(a[len(bearer):])
		}
	}
	return r.Header.Get("X-Api-Key")
}

func (c *call) requestID() string { return c.headers[0] }

// name is the route for logs.
func (c *call) name() string {
	if c.endpoint == nil {
		return "unmatched"
	}
	return c.endpoint.pattern()
}

// saneID says whether a client's request id may stand in logs and headers.
func saneID(id string) bool {
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

// mintID is a new request id: 128 random bits, the size of a trace id. It
// guards nothing, so it need not be unguessable.
func mintID() string {
	var bits [16]byte
	binary.LittleEndian.PutUint64(bits[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(bits[8:], rand.Uint64())
	var text [32]byte
	hex.Encode(text[:], bits[:])
	return string(text[:])
}
