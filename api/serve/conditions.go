package serve

import (
	"net/http"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
)

// The conditions that a client may make its request depend on, by their headers.
const (
	IfMatch     = "If-Match"
	IfNoneMatch = "If-None-Match"
)

var conditions = []string{IfMatch, IfNoneMatch}

// checkConditions refuses what the route's handler does not judge: passed over, it would
// let a client do what it asked not to have done. Reads may pass over If-None-Match, which
// asks only to be spared an answer; open ones, which probes ask for, all of them. What is
// not built does nothing, and says so.
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

// notTaken says which routes of the same resource take a condition.
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

// below says whether a path is another or begins with it.
func below(path, other string) bool {
	rest, found := strings.CutPrefix(path, other)
	return found && (rest == "" || rest[0] == '/')
}
