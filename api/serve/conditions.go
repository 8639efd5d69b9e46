package serve

import (
	"net/http"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
)

// The headers that make a request conditional.
const (
	IfMatch     = "If-Match"
	IfNoneMatch = "If-None-Match"
)

var conditions = []string{IfMatch, IfNoneMatch}

// checkConditions refuses with VALIDATION_ERROR a condition that the route's handler does not check, because
// a handler that ignores a condition would do what the client asked not to do. Reads may ignore
// If-None-Match, which only saves a response. Open reads, which probes send, and unbuilt routes, which do
// nothing, may ignore all conditions.
func (e *endpoint) checkConditions(r *http.Request) error {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if e.Unbuilt || reads && e.Permission == Open {
		return nil
	}
	for _, header := range conditions {
		switch {
		case len(r.Header[header]) == 0, slices.Contains(e.Conditions, header):
		case header == IfNoneMatch && reads:
		default:
			return e.notTaken(header)
		}
	}
	return nil
}

// notTaken returns an error that names the routes that accept the condition on the same path, on a path below
// it or on a path above it.
func (e *endpoint) notTaken(header string) error {
	var taking []string
	for _, other := range e.server.conditional {
		if slices.Contains(other.Conditions, header) && (below(e.Path, other.Path) || below(other.Path, e.Path)) {
			taking = append(taking, other.pattern())
		}
	}
	if len(taking) == 0 {
		return api.Errorf(api.ValidationError, "%s is not taken by %s: leave it out", header, e.pattern())
	}
	return api.Errorf(api.ValidationError, "%s is taken by %s, and not by %s: leave it out", header, strings.Join(taking, " and "), e.pattern())
}

// below reports whether path is other or a path below it.
func below(path, other string) bool {
	rest, found := strings.CutPrefix(path, other)
	return found && (rest == "" || rest[0] == '/')
}
