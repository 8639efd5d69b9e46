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

// Open is the permission of a route without a credential. It is not the empty string, so that New refuses
// a route whose permission was forgotten.
const Open tenancy.Permission = "open"

// Handler serves a request. A returned error becomes the response: an *api.Error with its code, any other error as
// INTERNAL with its text only in the log, and not even there if the client has left. If the response has begun,
// the error cuts the connection, so that a client does not take a part for the whole. A handler that returns nil
// and writes nothing answers 200.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Route is one row of a server's table.
type Route struct {
	Method      string             // GET includes HEAD
	Path        string             // as in http.ServeMux, without host: "/api/v1/jobs/{id}"
	Permission  tenancy.Permission // or Open
	Summary     string             // imperative of at most 12 words for the OpenAPI document
	Description string             // sentences for the document, if Summary does not say enough
	Operation   string             // operationId of the document; "" = derived from Method and Path
	Query       []Param
	Request     any      // zero value of the body's type; nil = no body
	Response    any      // zero value of the response's type; nil = not described
	Status      int      // of success, for the document; 0 = 200
	Strict      bool     // refuse repeated body fields and parameters, and those that Request and Query do not have
	MaxBody     int64    // bytes; 0 = Config.MaxBody
	Audited     bool     // record requests in the audit log even if they succeed
	Unbuilt     bool     // Handler always answers 501, even if the request has a condition
	Conditions  []string // those of IfMatch and IfNoneMatch that Handler checks; see checkConditions for the others
	Handler     Handler
	// Problem writes an error in a form of its own. It is called only if no response has begun. nil = as a
	// problem response.
	Problem func(w http.ResponseWriter, r *http.Request, e *api.Error)
}

// Param is a query parameter, for the OpenAPI document and for the check on Strict routes.
type Param struct {
	Name string
	Type string // a JSON type, such as Boolean; "" = string
	Doc  string
}

func (r Route) pattern() string { return r.Method + " " + r.Path }

// validate returns every fault of a row.
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
