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

// Boolean is the Type of a parameter that is true or false, and nothing else.
const Boolean = "boolean"

// checkQuery refuses a query that cannot be read, and parameters that the route does not
// take: what is misspelt would be taken for what is left out, and may be what a deletion
// was to depend on.
func (r *Route) checkQuery(raw string) error {
	if raw == "" {
		return nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		// What could be read of it is not looked at: the rest may be what matters.
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

// wrongWith says what is wrong with a parameter, "" where nothing is.
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
