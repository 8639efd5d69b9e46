package serve

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// Open is the permission of a route that needs no credential. It is a word of
// its own, so that a route whose permission was forgotten is refused by New
// instead of being open.
const Open tenancy.Permission = "open"

// Handler answers a request. An error it returns becomes the answer: an
// *api.Error with its code, any other as INTERNAL with its text in the log
// only. Once it has begun to answer, an error cuts the connection, so that half
// an answer is not taken for a whole one.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Route is one row of a server's table.
type Route struct {
	Method     string             // GET includes HEAD
	Path       string             // as in http.ServeMux, without host: "/api/v1/jobs/{id}"
	Permission tenancy.Permission // or Open
	Summary    string             // one line for the OpenAPI document
	Operation  string             // operationId of the document; "" = made of method and path
	Query      []Param
	Request    any      // zero value of the body's type; nil = none
	Response   any      // zero value of the answer's type; nil = not described
	Status     int      // of success, for the document; 0 = 200
	Strict     bool     // refuse body fields that Request does not have, and parameters that Query does not
	MaxBody    int64    // bytes; 0 = Config.MaxBody
	Audited    bool     // what is asked here is recorded, also where it is granted
	Unbuilt    bool     // Handler answers 501, whatever the request asks or depends on
	Conditions []string // of IfMatch and IfNoneMatch: what Handler judges; the others are refused
	Handler    Handler
	// Problem answers with an error in a form of the route's own; nil = as all do. Nothing
	// of an answer has been written.
	Problem func(w http.ResponseWriter, r *http.Request, e *api.Error)
}

// Param is a query parameter, for the OpenAPI document and for what Strict routes take.
type Param struct {
	Name string
	Type string // a JSON type, such as Boolean; "" = string
	Doc  string
}

func (r Route) pattern() string { return r.Method + " " + r.Path }

// validate finds every fault of a row.
func (r Route) validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("route %q: "+format, append([]any{r.pattern()}, args...)...))
	}
	if r.Method == "" || r.Method != strings.ToUpper(r.Method) {
		fault("its method is no HTTP method")
	}
	if !strings.HasPrefix(r.Path, "/") {
		fault("its path does not begin with /")
	}
	if r.Permission != Open && !r.Permission.Valid() {
		fault("permission %q does not exist: name one, or serve.Open for a route without a credential", r.Permission)
	}
	if r.Handler == nil {
		fault("it has no handler")
	}
	for _, header := range r.Conditions {
		if !slices.Contains(conditions, header) {
			fault("%s is no condition", header)
		}
	}
	if r.MaxBody < 0 {
		fault("MaxBody is negative")
	}
	return errors.Join(faults...)
}
