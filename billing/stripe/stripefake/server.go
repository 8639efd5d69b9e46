// Package stripefake is a stateful fake of the parts of Stripe that Corvo uses, in the shapes of API version 2023-10-16:
// customers, invoices, meters, checkout in mode setup, the billing portal and webhooks. Tests advance its clock and inject
// faults. It holds its state in memory and charges nobody. It shares no code with billing/stripe and does not import the
// library of Stripe, so that a mistake in one of them is seen by the other. It imports nothing of this module.
package stripefake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// APIVersion is the version whose shapes the fake has.
const APIVersion = "2023-10-16"

// The defaults of a Config. DefaultKey is the secret key of tests and of development clouds.
const (
	DefaultKey        = "sk_test_corvo"
	DefaultSummaryLag = 5 * time.Minute
	DefaultSearchLag  = time.Minute
)

// maxBody is the largest body of a request in bytes.
const maxBody = 1 << 20

// Config sets a Server up. The zero value uses the real clock and the defaults.
type Config struct {
	Now        func() time.Time // nil = time.Now
	Key        string           // secret key; "" = DefaultKey
	SummaryLag time.Duration    // from a meter event until summaries count it; 0 = DefaultSummaryLag
	SearchLag  time.Duration    // from a change until searches find it; 0 = DefaultSearchLag
	TaxPercent int64            // of invoices with automatic tax
}

// Server is the fake. It is an http.Handler and safe for concurrent use.
type Server struct {
	cfg Config
	mux *http.ServeMux

	mu       sync.Mutex // guards everything below
	next     int        // number of the next id
	kinds    map[string]*kind
	answers  map[string]*answer // by idempotency key
	faults   []*Fault
	outage   time.Time // requests fail until then
	calls    []string  // "METHOD /path" of each request that reached a route
	seen     map[string]time.Time
	busy     map[string]bool // a customer and meter with a call in progress
	usage    []usage
	declines map[string]bool // customers whose payments are declined
	pending  []*delivery
	secrets  map[string][]secret // of a webhook endpoint
}

// object is an object of the API, as its JSON.
type object = map[string]any

// kind holds the objects of one type, the oldest first.
type kind struct {
	ids  []string
	byID map[string]object
}

// New makes a Server without objects.
func New(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Key == "" {
		cfg.Key = DefaultKey
	}
	if cfg.SummaryLag == 0 {
		cfg.SummaryLag = DefaultSummaryLag
	}
	if cfg.SearchLag == 0 {
		cfg.SearchLag = DefaultSearchLag
	}
	s := &Server{
		cfg: cfg, mux: http.NewServeMux(), kinds: map[string]*kind{}, answers: map[string]*answer{}, seen: map[string]time.Time{},
		busy: map[string]bool{}, declines: map[string]bool{}, secrets: map[string][]secret{},
	}
	for _, r := range routes {
		s.mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { s.serve(w, req, r) })
	}
	s.mux.HandleFunc("GET /pages/checkout/{id}", s.checkoutPage)
	s.mux.HandleFunc("POST /pages/checkout/{id}", s.completeCheckout)
	s.mux.HandleFunc("GET /pages/portal/{id}", s.portalPage)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		write(w, invalid("", "", "Unrecognized request URL (%s: %s).", req.Method, req.URL.Path).at(http.StatusNotFound).answer())
	})
	return s
}

// ServeHTTP answers a request of a client, or of a browser for a page.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// call is a request that a route answers.
type call struct {
	*http.Request
	form url.Values
	base string // URL of this server
}

// has reports whether the request has a parameter.
func (c *call) has(name string) bool { return c.form.Has(name) }

// text returns a parameter, or nil if it is absent or empty.
func (c *call) text(name string) any {
	if v := c.form.Get(name); v != "" {
		return v
	}
	return nil
}

// pairs returns the parameters name[key] as a map.
func (c *call) pairs(name string) object {
	all := object{}
	for param, values := range c.form {
		if key, ok := strings.CutPrefix(param, name+"["); ok && strings.HasSuffix(key, "]") {
			all[strings.TrimSuffix(key, "]")] = values[0]
		}
	}
	return all
}

// list returns the parameters name[] or name[0], name[1] and so on.
func (c *call) list(name string) []string {
	if all := c.form[name+"[]"]; all != nil {
		return all
	}
	var all []string
	for i := 0; c.form.Has(fmt.Sprintf("%s[%d]", name, i)); i++ {
		all = append(all, c.form.Get(fmt.Sprintf("%s[%d]", name, i)))
	}
	return all
}

// serve answers a request of a client: authentication, faults, idempotency, then the route.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, at route) {
	if r.Header.Get("Authorization") != "Bearer "+s.cfg.Key {
		write(w, (&failure{status: http.StatusUnauthorized, kind: "invalid_request_error", message: "Invalid API Key provided."}).answer())
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		write(w, invalid("", "", "The body cannot be read: %v", err).answer())
		return
	}
	c := &call{Request: r, base: "http://" + r.Host}
	text := r.URL.RawQuery
	if r.Method == http.MethodPost {
		text = string(body)
	}
	if c.form, err = url.ParseQuery(text); err != nil {
		write(w, invalid("", "", "The parameters cannot be parsed: %v", err).answer())
		return
	}
	fault, failed := s.meet(r, at.pattern)
	if failed != nil {
		write(w, failed)
		return
	}
	if fault.drops() {
		panic(http.ErrAbortHandler)
	}
	given := s.respond(c, at, string(body), fault)
	if fault != nil && fault.Kind == LoseResponse {
		panic(http.ErrAbortHandler) // closes the connection without a response
	}
	write(w, given)
}

// respond returns the response to a request: a stored one for a known idempotency key, or else that of its route.
func (s *Server) respond(c *call, at route, body string, fault *Fault) *answer {
	if err := at.checkParams(c); err != nil {
		return err.answer()
	}
	key := c.Header.Get("Idempotency-Key")
	if c.Method != http.MethodPost {
		key = ""
	}
	stored, err := s.claim(key, c.Method+" "+c.URL.Path+"\n"+body)
	if err != nil {
		return err.answer()
	}
	if stored != nil {
		return stored
	}
	if at.locks != nil {
		unlock, err := s.lock(at.locks(c))
		if err != nil {
			s.settle(key, nil)
			return err.answer()
		}
		defer unlock()
	}
	if fault != nil && fault.Kind == Hold {
		<-fault.Release
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	result, err := at.answer(s, c)
	given := &answer{status: http.StatusOK}
	if err != nil {
		given = err.answer()
	} else {
		given.body, _ = json.Marshal(result) // maps of texts and numbers
	}
	s.settleLocked(key, given)
	return given
}

// failure is an error of the API.
type failure struct {
	status                     int
	kind, code, param, message string
	retryAfter                 string
}

// invalid makes the error of a request that cannot be answered.
func invalid(code, param, format string, args ...any) *failure {
	return &failure{status: http.StatusBadRequest, kind: "invalid_request_error", code: code, param: param, message: fmt.Sprintf(format, args...)}
}

// missing makes the error for an object that does not exist.
func missing(what, id string) *failure {
	return invalid("resource_missing", "id", "No such %s: '%s'", what, id).at(http.StatusNotFound)
}

func (f *failure) at(status int) *failure {
	f.status = status
	return f
}

func (f *failure) answer() *answer {
	e := object{"type": f.kind, "message": f.message}
	if f.code != "" {
		e["code"] = f.code
	}
	if f.param != "" {
		e["param"] = f.param
	}
	body, _ := json.Marshal(object{"error": e}) // texts
	return &answer{status: f.status, body: body, retryAfter: f.retryAfter}
}

func write(w http.ResponseWriter, a *answer) {
	w.Header().Set("Content-Type", "application/json")
	if a.retryAfter != "" {
		w.Header().Set("Retry-After", a.retryAfter)
	}
	if a.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client has gone
}

// of returns the objects of a type, such as "customer".
func (s *Server) of(name string) *kind {
	k := s.kinds[name]
	if k == nil {
		k = &kind{byID: map[string]object{}}
		s.kinds[name] = k
	}
	return k
}

// create stores a new object under a new id and returns it.
func (s *Server) create(name, prefix string, o object) object {
	s.next++
	o["id"] = fmt.Sprintf("%s_fake%06d", prefix, s.next)
	o["object"] = name
	o["livemode"] = false
	if _, ok := o["created"]; !ok {
		o["created"] = s.cfg.Now().Unix()
	}
	k := s.of(name)
	k.ids = append(k.ids, o["id"].(string))
	k.byID[o["id"].(string)] = o
	return o
}

// find returns an object.
func (s *Server) find(name, id string) (object, *failure) {
	o := s.of(name).byID[id]
	if o == nil {
		return nil, missing(name, id)
	}
	return o, nil
}

// maxPage is the largest number of objects in a list, and defaultPage the number without the parameter limit.
const (
	maxPage     = 100
	defaultPage = 10
)

// page returns the objects that match, the newest first, as Stripe lists them.
func (s *Server) page(c *call, name string, match func(object) bool) (object, *failure) {
	ids := slices.Clone(s.of(name).ids)
	slices.Reverse(ids)
	if after := c.form.Get("starting_after"); after != "" {
		at := slices.Index(ids, after)
		if at < 0 {
			return nil, missing(name, after)
		}
		ids = ids[at+1:]
	}
	limit := defaultPage
	if c.has("limit") {
		if _, err := fmt.Sscan(c.form.Get("limit"), &limit); err != nil || limit < 1 || limit > maxPage {
			return nil, invalid("parameter_invalid_integer", "limit", "Invalid limit: it must be 1 to %d.", maxPage)
		}
	}
	data, more := []object{}, false
	for _, id := range ids {
		o := s.of(name).byID[id]
		if o == nil || !match(o) {
			continue
		}
		if more = len(data) == limit; more {
			break
		}
		data = append(data, o)
	}
	return object{"object": "list", "url": c.URL.Path, "has_more": more, "data": data}, nil
}

// Calls returns the requests that reached a route since the last call of Calls, as "METHOD /path".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// ErrUnknown means that the fake has no such object.
var ErrUnknown = errors.New("the fake has no such object")

// Objects returns copies of all objects of a type, such as "invoice", the oldest first.
func (s *Server) Objects(name string) (all []map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.of(name).ids {
		if o := s.of(name).byID[id]; o != nil {
			all = append(all, clone(o))
		}
	}
	return all
}

// clone returns a deep copy with the types of decoded JSON.
func clone(o object) (c object) {
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic(fmt.Sprintf("object %v is not JSON: %v", o["id"], err))
	}
	return c
}
