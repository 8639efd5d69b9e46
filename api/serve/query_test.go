package serve

import (
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// A strict route accepts the query parameters in its table and names an unknown one.
func TestQuery(t *testing.T) {
	t.Parallel()
	handler := func(w http.ResponseWriter, _ *http.Request) error { return WriteJSON(w, 200, struct{}{}) }
	takes := []Param{{Name: "name"}, {Name: "sure", Type: Boolean}}
	n := newNode(t,
		Route{Method: "DELETE", Path: "/strict", Permission: Open, Strict: true, Query: takes, Handler: handler},
		Route{Method: "DELETE", Path: "/none", Permission: Open, Strict: true, Handler: handler},
		Route{Method: "DELETE", Path: "/lenient", Permission: Open, Query: takes, Handler: handler},
	)
	for _, target := range []string{"/strict", "/strict?", "/strict?name=", "/strict?name=a%20b&sure=true", "/strict?sure=false", "/none", "/lenient?sure=yes&sur=1&%zz"} {
		if w := n.do("DELETE", target, ""); w.Code != 200 {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	for target, message := range map[string]string{
		"/strict?sur=true":            "sur: no such query parameter here: there are name, sure",
		"/strict?Sure=true":           "Sure: no such query parameter here",
		"/none?sure=true":             "sure: no query parameter is taken here",
		"/strict?sure":                `sure: is "": use true or false`,
		"/strict?sure=TRUE":           `sure: is "TRUE": use true or false`,
		"/strict?sure=true&sure=true": "sure: is given 2 times: give it once",
		"/strict?name=x;sure=true":    "query: cannot be read",
		"/strict?sure=true&x=%zz":     "query: cannot be read",
		"/strict?b=1&a=1":             "a: no such query parameter here: there are name, sure; b: no such",

		// The error repeats at most lines of the query, whatever its contents.
		"/strict?" + strings.Repeat("%80", 200) + "=1": "no such query parameter here",
		"/strict?sure=" + strings.Repeat("%80", 20000): "use true or false",
		"/strict?" + manyParameters(2000):              "no such query parameter here",
	} {
		w := n.do("DELETE", target, "")
		if p := wantProblem(t, w, api.ValidationError); !strings.Contains(p.Error, message) || w.Body.Len() > 10_000 {
			t.Errorf("%.100s: says %.500q, want %q", target, p.Error, message)
		}
	}
}

// manyParameters returns a query with that many parameters.
func manyParameters(count int) string {
	var b strings.Builder
	for range count {
		b.WriteString(strings.Repeat("x", b.Len()%7+1) + "&")
	}
	return b.String()
}
