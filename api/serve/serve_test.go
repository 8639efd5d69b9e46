package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// log collects the log of the server under test.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tokens are the valid credentials of the servers under test.
var tokens = map[string]tenancy.Principal{
	"worker":   {Namespace: tenancy.Default, KeyID: "w", Roles: []tenancy.Role{tenancy.Worker}},
	"readonly": {Namespace: tenancy.Default, KeyID: "r", Roles: []tenancy.Role{tenancy.ReadOnly}},
	"nobody":   {}, // an authenticator's mistake
}

func authenticate(r *http.Request) (tenancy.Principal, error) {
	switch token := Credential(r); token {
	case "":
		return tenancy.Principal{}, api.Errorf(api.Unauthorized, "send an API key")
	case "broken":
		return tenancy.Principal{}, errors.New("key store is closed")
	default:
		return tokens[token], nil
	}
}

// node is a server under test.
type node struct {
	http.Handler
	log      *log
	registry *telemetry.Registry
}

func newNode(t testing.TB, routes ...Route) node {
	t.Helper()
	n := node{log: &log{}, registry: telemetry.NewRegistry()}
	var err error
	n.Handler, err = New(Config{
		Routes:       routes,
		Authenticate: authenticate,
		Logger:       slog.New(slog.NewTextHandler(n.log, nil)),
		Metrics:      telemetry.NewHTTP(n.registry),
		MaxBody:      1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// do sends a request to the handler; headers follow as name, value.
func (n node) do(method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	n.ServeHTTP(w, r)
	return w
}

func (n node) metrics() string {
	w := httptest.NewRecorder()
	n.registry.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// answer returns a handler that sends text.
func answer(text string) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return WriteJSON(w, http.StatusOK, text)
	}
}

func refuse(err error) Handler {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

func get(path string, h Handler) Route {
	return Route{Method: "GET", Path: path, Permission: Open, Handler: h}
}

func post(path string, h Handler) Route {
	return Route{Method: "POST", Path: path, Permission: Open, Handler: h}
}

// wantProblem checks that a response is a problem with the code and its status.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, code api.Code) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("answer %d %q is no problem: %v", w.Code, w.Body, err)
	}
	if w.Code != code.Status() || p.Code != code || p.Error == "" {
		t.Errorf("answer is %d %s, want %s", w.Code, w.Body, code)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type is %q", got)
	}
	return p
}

func TestMatching(t *testing.T) {
	t.Parallel()
	echo := func(w http.ResponseWriter, r *http.Request) error {
		return WriteJSON(w, http.StatusOK, r.PathValue("id"))
	}
	n := newNode(t,
		get("/api/jobs/{id}", echo),
		get("/api/jobs/search", answer("search by GET")),
		post("/api/jobs/search", answer("search")),
		post("/api/jobs/{id}/retry", echo),
		Route{Method: "DELETE", Path: "/api/jobs/{id}", Permission: Open, Handler: echo},
		get("/ui/", answer("ui")),
		get("/{$}", answer("root")),
	)
	const none = ""
	for _, c := range []struct {
		method, path string
		want         string // "" = 404
		allow        string // set = 405
	}{
		{"GET", "/api/jobs/1", `"1"`, ""},
		{"HEAD", "/api/jobs/1", `"1"`, ""}, // net/http drops the body
		{"DELETE", "/api/jobs/1", `"1"`, ""},
		{"POST", "/api/jobs/1/retry", `"1"`, ""},
		{"POST", "/api/jobs/search", `"search"`, ""},
		{"GET", "/api/jobs/search", `"search by GET"`, ""},
		{"GET", "/", `"root"`, ""},
		{"GET", "/ui/a/b", `"ui"`, ""},
		{"GET", "/api/jobs/a%2Fb", `"a/b"`, ""},        // an encoded slash is no separator
		{"GET", "/api/jobs/%2e%2e", `".."`, ""},        // nor are encoded dots a segment
		{"GET", "/api/jobs/1?x=../..", `"1"`, ""},      // the query is no path
		{"DELETE", "/api/jobs/search", `"search"`, ""}, // an id like any other

		{"PUT", "/api/jobs/1", none, "DELETE, GET, HEAD"},
		{"OPTIONS", "/api/jobs/1", none, "DELETE, GET, HEAD"},
		{"GET", "/api/jobs/1/retry", none, "POST"},
		{"PUT", "/api/jobs/search", none, "DELETE, GET, HEAD, POST"},
		{"get", "/api/jobs/1", none, "DELETE, GET, HEAD"},
		{"POST", "/", none, "GET, HEAD"},

		{"GET", "/nothing", none, ""},
		{"GET", "/API/jobs/1", none, ""},
		{"GET", "/api/jobs/", none, ""},
		{"GET", "/api/jobs/1/", none, ""},
		{"GET", "/api/jobs", none, ""},
		{"GET", "//api/jobs/1", none, ""},
		{"GET", "/api//jobs/1", none, ""},
		{"GET", "/api/./jobs/1", none, ""},
		{"GET", "/api/x/../jobs/1", none, ""},
		{"GET", "/../api/jobs/1", none, ""},
		{"GET", "/api/jobs/..", none, ""},
		{"POST", "/api/x/../jobs/1", none, ""},
		{"GET", "/ui", none, ""}, // no redirect
		{"GET", "/api%2Fjobs/1", none, ""},
		{"CONNECT", "/nothing", none, ""},
	} {
		w := n.do(c.method, c.path, "")
		switch {
		case c.want != "":
			if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != c.want {
				t.Errorf("%s %s answers %d %s, want %s", c.method, c.path, w.Code, got, c.want)
			}
		case c.allow != "":
			wantProblem(t, w, api.MethodNotAllowed)
			if got := w.Header().Get("Allow"); got != c.allow {
				t.Errorf("%s %s allows %q, want %q", c.method, c.path, got, c.allow)
			}
		default:
			wantProblem(t, w, api.NotFound)
		}
		for _, name := range []string{"X-Request-Id", "Server-Timing"} {
			if w.Header().Get(name) == "" {
				t.Errorf("%s %s answers without %s", c.method, c.path, name)
			}
		}
		for _, name := range []string{"Location", "X-Content-Type-Options"} {
			if w.Header().Get(name) != "" {
				t.Errorf("%s %s answers with %s", c.method, c.path, name)
			}
		}
	}
}

func TestAuthorisation(t *testing.T) {
	t.Parallel()
	who := func(w http.ResponseWriter, r *http.Request) error {
		return WriteJSON(w, http.StatusOK, Principal(r.Context()).KeyID)
	}
	n := newNode(t,
		Route{Method: "POST", Path: "/work", Permission: tenancy.JobWork, Handler: who},
		Route{Method: "GET", Path: "/open", Permission: Open, Handler: who},
	)
	wantWho := func(w *httptest.ResponseRecorder, id string) {
		t.Helper()
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != `"`+id+`"` {
			t.Errorf("answer is %d %s, want 200 for key %q", w.Code, got, id)
		}
	}
	wantWho(n.do("POST", "/work", "", "Authorization", "Bearer worker"), "w")
	wantWho(n.do("POST", "/work", "", "Authorization", "bearer  worker"), "w")
	wantWho(n.do("POST", "/work", "", "X-API-Key", "worker"), "w")
	wantWho(n.do("GET", "/open", ""), "")
	wantWho(n.do("GET", "/open", "", "X-API-Key", "broken"), "")

	w := n.do("POST", "/work", "")
	wantProblem(t, w, api.Unauthorized)
	if got := w.Header().Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("a 401 asks for %q", got)
	}
	wantProblem(t, n.do("POST", "/work", "", "Authorization", "Basic worker"), api.Unauthorized)
	p := wantProblem(t, n.do("POST", "/work", "", "X-API-Key", "readonly"), api.Forbidden)
	if !strings.Contains(p.Error, "job.work") {
		t.Errorf("a 403 does not name the right: %q", p.Error)
	}
	wantProblem(t, n.do("POST", "/work", "", "X-API-Key", "nobody"), api.Forbidden)
	wantProblem(t, n.do("POST", "/work", "", "X-API-Key", "unknown"), api.Forbidden)
	p = wantProblem(t, n.do("POST", "/work", "", "X-API-Key", "broken"), api.Internal)
	if strings.Contains(p.Error, "key store") {
		t.Errorf("a 500 shows its cause: %q", p.Error)
	}
}

func TestPrincipalOutsideOfARequest(t *testing.T) {
	t.Parallel()
	who := Principal(context.Background())
	if tenancy.Allow(who, tenancy.JobRead, tenancy.Where{Namespace: who.Namespace}) == nil {
		t.Error("a context without a request may do something")
	}
	if id := RequestID(context.Background()); id != "" {
		t.Errorf("a context without a request has id %q", id)
	}
}

// TestContext checks that the request's context is derived from that of the connection.
func TestContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	n := newNode(t, get("/", func(w http.ResponseWriter, r *http.Request) error {
		if r.Context().Value(key{}) != "value" {
			t.Error("a value of the connection is lost")
		}
		child, cancel := context.WithTimeout(r.Context(), time.Hour)
		defer cancel()
		if RequestID(child) != w.Header().Get("X-Request-Id") {
			t.Error("a child context does not know its request")
		}
		<-child.Done()
		return child.Err()
	}))
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	cancel()
	n.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if text := n.log.String(); text != "" {
		t.Errorf("a client that left is logged as a fault: %s", text)
	}
	if text := n.metrics(); !strings.Contains(text, `{method="GET",route="/",status="4xx"} 1`) {
		t.Errorf("a client that left is counted as a fault:\n%s", text)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	later := api.Errorf(api.Overloaded, "try later")
	later.RetryAfter = 1001 * time.Millisecond
	later.Details = map[string]any{"queue": "q"}
	soon := api.Errorf(api.RateLimited, "try soon")
	soon.RetryAfter = time.Microsecond
	odd := api.Errorf(api.Conflict, "odd")
	odd.Details = map[string]any{"f": func() {}}
	n := newNode(t,
		get("/later", refuse(later)),
		get("/soon", refuse(soon)),
		get("/unknown-delay", refuse(api.Errorf(api.ViewBehind, "behind"))),
		get("/wrapped", refuse(errors.Join(errors.New("outer"), api.Errorf(api.NotFound, "no job x")))),
		get("/plain", refuse(errors.New("secret path /var/lib"))),
		get("/hidden", refuse(api.Wrap(io.ErrUnexpectedEOF, api.Internal, "the store is closed"))),
		get("/odd", refuse(odd)),
		get("/unencodable", func(w http.ResponseWriter, r *http.Request) error {
			return WriteJSON(w, 200, make(chan int))
		}),
	)

	w := n.do("GET", "/later", "")
	p := wantProblem(t, w, api.Overloaded)
	if p.Details["retryable"] != true || p.Details["retry_after_ms"] != 1001.0 || p.Details["queue"] != "q" {
		t.Errorf("details are %v", p.Details)
	}
	if got := w.Header().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After is %q, want whole seconds rounded up", got)
	}
	if len(later.Details) != 1 {
		t.Errorf("the error's own details were changed: %v", later.Details)
	}

	w = n.do("GET", "/soon", "")
	p = wantProblem(t, w, api.RateLimited)
	if p.Details["retry_after_ms"] != 1.0 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("a microsecond is %v ms and %s s, want 1 and 1", p.Details, w.Header().Get("Retry-After"))
	}

	w = n.do("GET", "/unknown-delay", "")
	p = wantProblem(t, w, api.ViewBehind)
	if _, given := p.Details["retry_after_ms"]; given || p.Details["retryable"] != true || w.Header().Get("Retry-After") != "" {
		t.Errorf("without a delay: %v, Retry-After %q", p.Details, w.Header().Get("Retry-After"))
	}

	p = wantProblem(t, n.do("GET", "/wrapped", ""), api.NotFound)
	if p.Error != "no job x" || p.Details != nil {
		t.Errorf("a wrapped error is %+v", p)
	}

	w = n.do("GET", "/plain", "", "X-Request-Id", "r-1")
	p = wantProblem(t, w, api.Internal)
	if strings.Contains(p.Error, "secret") || !strings.Contains(p.Error, "r-1") {
		t.Errorf("an error of no code says %q", p.Error)
	}
	if text := n.log.String(); !strings.Contains(text, "secret path /var/lib") || !strings.Contains(text, "request_id=r-1") {
		t.Errorf("log has no cause, or no request id: %s", text)
	}
	p = wantProblem(t, n.do("GET", "/hidden", ""), api.Internal)
	if p.Error != "the store is closed" || !strings.Contains(n.log.String(), "unexpected EOF") {
		t.Errorf("a hidden cause: answer %q, log %s", p.Error, n.log)
	}
	wantProblem(t, n.do("GET", "/odd", ""), api.Conflict)
	wantProblem(t, n.do("GET", "/unencodable", ""), api.Internal)
}

func TestPanic(t *testing.T) {
	t.Parallel()
	n := newNode(t,
		get("/before", func(http.ResponseWriter, *http.Request) error { panic("boom") }),
		get("/after", func(w http.ResponseWriter, r *http.Request) error {
			w.WriteHeader(200)
			panic("boom")
		}),
		get("/abort", func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }),
	)
	p := wantProblem(t, n.do("GET", "/before", "", "X-Request-Id", "r-2"), api.Internal)
	if strings.Contains(p.Error, "boom") {
		t.Errorf("a panic shows: %q", p.Error)
	}
	text := n.log.String()
	for _, part := range []string{"boom", "r-2", "GET /before", "serve_test.go"} {
		if !strings.Contains(text, part) {
			t.Errorf("the log of a panic lacks %q: %s", part, text)
		}
	}
	for _, path := range []string{"/after", "/abort"} {
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("%s panics with %v, want http.ErrAbortHandler", path, p)
				}
			}()
			n.do("GET", path, "")
			t.Errorf("%s returns as if it were whole", path)
		}()
	}
	if text := n.metrics(); !strings.Contains(text, "corvo_http_panics_total 2\n") || !strings.Contains(text, "corvo_http_requests_in_flight 0\n") {
		t.Errorf("metrics after panics:\n%s", text)
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	n := newNode(t, get("/", func(w http.ResponseWriter, r *http.Request) error {
		return WriteJSON(w, 200, RequestID(r.Context()))
	}))
	minted := regexp.MustCompile(`^[0-9a-f]{32}$`)
	longest := strings.Repeat("x", MaxRequestID)
	for id, kept := range map[string]bool{
		"abc":                        true,
		"A-b_c.9":                    true,
		longest:                      true,
		longest + "x":                false,
		"":                           false,
		"a b":                        false,
		"a\tb":                       false,
		"<script>":                   false,
		"ü":                          false,
		"a\nX-Admin: 1":              false,
		"00-4bf92f3577b34da6a3ce929": true,
	} {
		w := n.do("GET", "/", "", "X-Request-Id", id)
		got := w.Header().Get("X-Request-Id")
		if kept && got != id || !kept && !minted.MatchString(got) {
			t.Errorf("id %q becomes %q", id, got)
		}
		if strings.TrimSpace(w.Body.String()) != `"`+got+`"` {
			t.Errorf("the handler sees %s, the client %s", w.Body, got)
		}
	}
	if a, b := n.do("GET", "/", ""), n.do("GET", "/", ""); a.Header().Get("X-Request-Id") == b.Header().Get("X-Request-Id") {
		t.Error("two requests get one id")
	}
}

func TestServerTiming(t *testing.T) {
	t.Parallel()
	n := newNode(t,
		get("/json", answer("x")),
		get("/silent", func(http.ResponseWriter, *http.Request) error { return nil }),
		get("/none", func(w http.ResponseWriter, r *http.Request) error {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}),
		get("/write", func(w http.ResponseWriter, r *http.Request) error {
			_, err := io.WriteString(w, "text")
			return err
		}),
	)
	form := regexp.MustCompile(`^proc;dur=\d+\.\d{3}$`)
	for _, path := range []string{"/json", "/silent", "/none", "/write", "/missing"} {
		w := n.do("GET", path, "")
		if got := w.Header()["Server-Timing"]; len(got) != 1 || !form.MatchString(got[0]) {
			t.Errorf("%s: Server-Timing is %q", path, got)
		}
	}
}

// TestMetrics checks that labels are patterns, never paths.
func TestMetrics(t *testing.T) {
	t.Parallel()
	n := newNode(t, get("/jobs/{id}", answer("x")), get("/bad", refuse(api.Errorf(api.Conflict, "no"))))
	for _, path := range []string{"/jobs/1", "/jobs/2", "/bad", "/scan/1", "/scan/2"} {
		n.do("GET", path, "")
	}
	n.do("BREW", "/jobs/1", "")
	text := n.metrics()
	for _, line := range []string{
		`corvo_http_requests_total{method="GET",route="/jobs/{id}",status="2xx"} 2`,
		`corvo_http_requests_total{method="GET",route="/bad",status="4xx"} 1`,
		`corvo_http_requests_total{method="any",route="unmatched",status="4xx"} 3`,
		`corvo_http_requests_in_flight 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("metrics lack %q", line)
		}
	}
	for _, leak := range []string{"scan", "BREW", "/jobs/1"} {
		if strings.Contains(text, leak) {
			t.Errorf("metrics hold %q", leak)
		}
	}
}

// TestNewRefusesABadTable checks that New returns all faults at once.
func TestNewRefusesABadTable(t *testing.T) {
	t.Parallel()
	h := answer("x")
	routes := []Route{
		{Method: "GET", Path: "/forgotten", Handler: h},
		{Method: "GET", Path: "/misspelt", Permission: "job.raed", Handler: h},
		{Method: "GET", Path: "/empty", Permission: Open},
		{Path: "/methodless", Permission: Open, Handler: h},
		{Method: "get", Path: "/lower", Permission: Open, Handler: h},
		{Method: "GET", Path: "relative", Permission: Open, Handler: h},
		{Method: "GET", Path: "/negative", Permission: Open, MaxBody: -1, Handler: h},
		{Method: "GET", Path: "/wild/{", Permission: Open, Handler: h},
		{Method: "GET", Path: "/twice", Permission: Open, Handler: h},
		{Method: "GET", Path: "/twice", Permission: Open, Handler: h},
	}
	_, err := New(Config{Routes: routes, Authenticate: authenticate})
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, route := range routes {
		if !strings.Contains(err.Error(), route.pattern()) {
			t.Errorf("no word about %q in:\n%v", route.pattern(), err)
		}
	}
	for _, c := range []Config{{MaxBody: -1}, {BodyTimeout: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	keyed := []Route{{Method: "GET", Path: "/keyed", Permission: tenancy.JobRead, Handler: h}}
	if _, err := New(Config{Routes: keyed}); err == nil || !strings.Contains(err.Error(), "/keyed") {
		t.Errorf("a route that needs a credential, without Authenticate: %v", err)
	}
}

// TestMark checks that Mark sees the caller, the code of a refusal and whether the request has changed something, and
// that its header is part of the response.
func TestMark(t *testing.T) {
	t.Parallel()
	h, err := New(Config{
		Authenticate: func(*http.Request) (tenancy.Principal, error) {
			return tenancy.Principal{Namespace: "ns_a", Roles: []tenancy.Role{tenancy.Admin}}, nil
		},
		Mark: func(ctx context.Context, h http.Header, refused api.Code, changed bool) {
			h.Set("Mark", fmt.Sprint(Principal(ctx).Namespace, refused, " ", changed))
		},
		Routes: []Route{
			{Method: "GET", Path: "/ok", Permission: Open, Handler: func(http.ResponseWriter, *http.Request) error { return nil }},
			{Method: "GET", Path: "/keyed", Permission: tenancy.JobRead, Handler: func(http.ResponseWriter, *http.Request) error { return nil }},
			{Method: "GET", Path: "/refused", Permission: Open, Handler: func(http.ResponseWriter, *http.Request) error {
				return api.Errorf(api.NotFound, "no")
			}},
			{Method: "GET", Path: "/changed", Permission: Open, Handler: func(_ http.ResponseWriter, r *http.Request) error {
				Changed(r.Context())
				return api.Errorf(api.Conflict, "no")
			}},
			{Method: "GET", Path: "/own", Permission: Open, Handler: func(w http.ResponseWriter, r *http.Request) error {
				Refused(r, api.Errorf(api.Overloaded, "no"))
				_, err := w.Write([]byte("own form"))
				return err
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/ok": " false", "/keyed": "ns_a false", "/refused": "NOT_FOUND false", "/changed": "CONFLICT true", "/own": "OVERLOADED false"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if got := w.Header().Get("Mark"); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	Changed(t.Context()) // outside of a request it does nothing
}
