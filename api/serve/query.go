package serve

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// Boolean is the Type of a parameter that must be true or false. Strict routes refuse other values.
const Boolean = "boolean"

// checkQuery refuses a query that cannot be parsed, parameters that the route does not have, parameters given
// more than once, and booleans other than true and false. The VALIDATION_ERROR lists up to maxFaults faults.
// A misspelt parameter is refused because it would count as absent, and a deletion may depend on it.
func (r *Route) checkQuery(raw string) error {
	if raw == "" {
		return nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		// The parsed part is ignored, because the unparsed part may be the one that matters.
		return invalid([]api.FieldError{{Field: "query", Error: "cannot be read: " + err.Error()}})
	}
	var faults []api.FieldError
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if wrong := r.wrongWith(name, query[name]); wrong != "" {
			faults = append(faults, api.FieldError{Field: text.Cut(strings.ToValidUTF8(name, "\uFFFD"), maxName), Error: wrong})
		}
		if len(faults) == maxFaults {
			break
		}
	}
	if len(faults) > 0 {
		return invalid(faults)
	}
	return nil
}

// wrongWith returns the fault of a parameter, or "".
func (r *Route) wrongWith(name string, given []string) string {
	at := slices.IndexFunc(r.Query, func(p Param) bool { return p.Name == name })
	switch {
	case at < 0 && len(r.Query) == 0:
		return "no query parameter is taken here"
	case at < 0:
		known := make([]string, len(r.Query))
		for i, p := range r.Query {
			known[i] = p.Name
		}
		return "no such query parameter here: there are " + strings.Join(known, ", ")
	case len(given) > 1:
		return fmt.Sprintf("is given %d times: give it once", len(given))
	case r.Query[at].Type == Boolean && given[0] != "true" && given[0] != "false":
		return fmt.Sprintf("is %.64q: use true or false", given[0])
	}
	return ""
}
