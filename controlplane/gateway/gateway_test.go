package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// The tests of this package use these words. A town is a control plane in memory (fleettest), a host that is
// a handler of the test, and the gateway between them, over real connections. put publishes the document of a
// namespace, key adds a credential to namespaces, and settle waits until the gateway has all documents. send
// sends a request through the gateway and returns a reply, which is the response with its body. stop ends the
// gateway early.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// town is a control plane, a host controlled by the test, and a gateway, over real connections.
type town struct {
	t       testing.TB
	plane   *fleettest.ControlPlane
	host    *httptest.Server
	gateway *Gateway
	url     string
	client  *http.Client
	stop    func() // ends the gateway; it may be called again

	credential string // of the gateway

	mu   sync.Mutex
	docs map[string]fleet.Doc
}

// newTown returns a town with one namespace, ns_a of organisation org_a, called "mail".
func newTown(t testing.TB, host http.HandlerFunc, change ...func(*Config)) *town {
	t.Helper()
	w := &town{t: t, plane: fleettest.New(t), docs: map[string]fleet.Doc{}}
	w.host = httptest.NewServer(host)
	t.Cleanup(w.host.Close)
	w.put("ns_a", nil)
	w.start(change...)
	return w
}

func (w *town) start(change ...func(*Config)) {
	w.t.Helper()
	if w.credential == "" {
		w.credential = w.plane.Register("gw_1", keyring.Gateway)
	}
	c := Config{
		ControlPlane: w.plane.URL, Credential: w.credential, Version: "test",
		Logger:   slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		HostWait: 100 * time.Millisecond,
	}
	for _, f := range change {
		f(&c)
	}
	g, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewServer(g)
	transport := &http.Transport{DisableCompression: true}
	w.gateway, w.url, w.client = g, server.URL, &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run ends with %v", err)
		}
	})
	w.t.Cleanup(w.stop)
	if c.DataDir == "" || g.cache.refused == nil {
		fleettest.Eventually(w.t, "the gateway is ready", func() bool { return g.Ready() == nil })
	}
}

// put publishes a namespace with a change.
func (w *town) put(id string, change func(*fleet.Doc)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, ok := w.docs[id]
	if !ok {
		name := map[string]string{"ns_a": "mail"}[id]
		if name == "" {
			name = strings.TrimPrefix(id, "ns_")
		}
		d = fleet.Doc{Namespace: id, Name: name, Org: "org_a", Generation: 1, Desired: fleet.Open, Members: memberAt(w.host.URL, 1), Ready: true}
	}
	if change != nil {
		change(&d)
	}
	w.docs[id] = w.plane.Put(d)
}

// memberAt returns the list of a single member with a number.
func memberAt(url string, number int) []fleet.GroupMember {
	return []fleet.GroupMember{{
		Store: fmt.Sprint("store_", number), Host: fmt.Sprint("host_", number), URL: url, Role: fleet.Join,
	}}
}

// key generates a credential and adds it to namespaces.
func (w *town) key(kind keyring.Kind, expires time.Time, namespaces ...string) string {
	w.t.Helper()
	text, id, hash, err := keyring.New(rand.Reader, kind)
	if err != nil {
		w.t.Fatal(err)
	}
	k := fleet.Key{ID: id, Name: "ci", Roles: []string{string(tenancy.Worker)}, Hash: hash[:]}
	if !expires.IsZero() {
		k.ExpiresNs = expires.UnixNano()
	}
	for _, n := range namespaces {
		w.put(n, func(d *fleet.Doc) { d.Keys = append(append([]fleet.Key(nil), d.Keys...), k) })
	}
	w.settle()
	return text
}

// settle waits until the gateway has all documents.
func (w *town) settle() {
	w.t.Helper()
	w.mu.Lock()
	var newest int64
	for _, d := range w.docs {
		newest = max(newest, d.Number)
	}
	w.mu.Unlock()
	if w.gateway != nil {
		fleettest.Eventually(w.t, "the gateway has all documents", func() bool { return w.gateway.member.Number() >= newest })
	}
}

func (w *town) request(ctx context.Context, method, path, key, body string, headers ...string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// reply is a response, read to its end.
type reply struct {
	*http.Response
	body string
}

func (r reply) code() api.Code {
	var p struct{ Code api.Code }
	_ = json.Unmarshal([]byte(r.body), &p)
	return p.Code
}

func (w *town) send(method, path, key, body string, headers ...string) reply {
	w.t.Helper()
	return w.do(w.request(w.t.Context(), method, path, key, body, headers...))
}

func (w *town) do(r *http.Request) reply {
	w.t.Helper()
	a, err := w.client.Do(r)
	if err != nil {
		w.t.Error(err)
		return reply{Response: &http.Response{Header: http.Header{}}}
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		w.t.Error(err)
	}
	return reply{a, string(text)}
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// TestAuthentication checks that each kind of valid credential is served, and the error for each kind of
// invalid one.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get(api.NamespaceHeader))
	})
	w.put("ns_b", nil)
	w.put("ns_closed", func(d *fleet.Doc) { d.Ready = false })
	w.put("ns_foreign", func(d *fleet.Doc) { d.Org = "org_b" })
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	closed := w.key(keyring.Namespace, time.Time{}, "ns_closed")
	org := w.key(keyring.Org, time.Time{}, "ns_a", "ns_b", "ns_closed")
	expired := w.key(keyring.Namespace, time.Now().Add(-time.Second), "ns_a")
	unknown := w.key(keyring.Namespace, time.Time{})
	gone := w.key(keyring.Namespace, time.Time{}, "ns_gone")
	w.put("ns_gone", func(d *fleet.Doc) { d.Desired, d.Keys = fleet.Absent, nil })
	w.settle()
	for _, c := range []struct {
		name, key, hint string
		status          int
		answer          string // the namespace, or the code
	}{
		{"a key", key, "", 200, "ns_a"},
		{"a key and its namespace's id", key, "ns_a", 200, "ns_a"},
		{"a key and its namespace's name", key, "mail", 200, "ns_a"},
		{"a token and an id", org, "ns_b", 200, "ns_b"},
		{"a token and a name", org, "mail", 200, "ns_a"},

		{"nothing", "", "", 401, "UNAUTHORIZED"},
		{"nothing, with a namespace", "", "ns_a", 401, "UNAUTHORIZED"},
		{"no key", "hello", "", 401, "UNAUTHORIZED"},
		{"an unknown key", unknown, "", 401, "UNAUTHORIZED"},
		{"a key cut short", key[:len(key)-1], "", 401, "UNAUTHORIZED"},
		{"an expired key", expired, "", 401, "UNAUTHORIZED"},
		{"a key of a namespace that is gone", gone, "", 401, "UNAUTHORIZED"},
		{"a key and another namespace", key, "ns_b", 403, "FORBIDDEN"},
		{"a token alone", org, "", 400, "VALIDATION_ERROR"},
		{"a token and no such namespace", org, "ns_x", 404, "NOT_FOUND"},
		{"a token and another organisation's namespace", org, "ns_foreign", 404, "NOT_FOUND"},
		{"a token and a namespace that is gone", org, "ns_gone", 404, "NOT_FOUND"},
		{"a namespace that is not open", closed, "", 503, "LEADER_UNAVAILABLE"},
		{"a namespace that is not open, by a token", org, "closed", 503, "LEADER_UNAVAILABLE"},
	} {
		var headers []string
		if c.hint != "" {
			headers = []string{api.NamespaceHeader, c.hint}
		}
		got := w.send("POST", "/api/v1/enqueue", c.key, `{}`, headers...)
		answer := got.body
		if c.status != 200 {
			answer = string(got.code())
		}
		if says := map[string]string{"nothing": "no API key: send", "no key": "not a whole Corvo API key", "a key cut short": "not a whole Corvo API key"}[c.name]; !strings.Contains(got.body, says) {
			t.Errorf("%s: %s, want %s", c.name, got.body, says)
		}
		if got.StatusCode != c.status || answer != c.answer {
			t.Errorf("%s: %d %s, want %d %s", c.name, got.StatusCode, got.body, c.status, c.answer)
		}
		if (got.Header.Get("Retry-After") == "1") != (c.status == 503) {
			t.Errorf("%s: Retry-After is %q", c.name, got.Header.Get("Retry-After"))
		}
		if strings.Contains(got.body, `"unchanged":true`) != (c.status == 503) {
			t.Errorf("%s: %s, want unchanged only if no host was asked", c.name, got.body)
		}
	}
	if got := w.send("GET", "/metrics", key, ""); got.StatusCode != 200 || got.body != "ns_a" {
		t.Errorf("/metrics: %d %s", got.StatusCode, got.body)
	}
	if got := w.send("GET", "/api/v1/queues", "", "", "X-API-Key", key); got.body != "ns_a" {
		t.Errorf("by X-API-Key: %d %s", got.StatusCode, got.body)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/openapi.json": 200, "/api/v2/x": 404, "/api/v1": 404, "/": 200, "/docs": 200, "/docs/": 404} {
		if got := w.send("GET", path, "", ""); got.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, got.StatusCode, want)
		}
	}
}

// TestTheSiteNamesBothDocuments checks that the two OpenAPI documents listed at / exist: the gateway's and
// the control plane's.
func TestTheSiteNamesBothDocuments(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	w.plane.Handle("/cloud/v1/openapi.json", func(out http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(out, `{"info":{"title":"Corvo cloud"}}`)
	})
	var told struct {
		OpenAPI []struct{ Name, URL string }
	}
	if err := json.Unmarshal([]byte(w.send("GET", "/", "", "").body), &told); err != nil || len(told.OpenAPI) != 2 {
		t.Fatal(told, err)
	}
	for _, document := range told.OpenAPI {
		var served struct{ Info struct{ Title string } }
		got := w.send("GET", document.URL, "", "")
		if err := json.Unmarshal([]byte(got.body), &served); err != nil || got.StatusCode != 200 || served.Info.Title != document.Name {
			t.Errorf("%s: %d %.80s, %v", document.URL, got.StatusCode, got.body, err)
		}
	}
}

// TestBeforeTheFirstDocument checks that a gateway without documents does not call a key invalid.
func TestBeforeTheFirstDocument(t *testing.T) {
	t.Parallel()
	plane := fleettest.New(t)
	plane.SetDown(true)
	g, err := New(Config{ControlPlane: plane.URL, Credential: plane.Register("gw_1", keyring.Gateway), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{"/api/v1/fetch": "LEADER_UNAVAILABLE", "/readyz": "unavailable"} {
		a := httptest.NewRecorder()
		g.ServeHTTP(a, httptest.NewRequest("GET", path, nil))
		if a.Code != 503 || !strings.Contains(a.Body.String(), body) {
			t.Errorf("%s: %d %s", path, a.Code, a.Body)
		}
	}
}

// TestHeaders checks that no client can send a header that only a gateway may set.
func TestHeaders(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen *http.Request
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = r.Clone(context.Background())
		w.Header().Set("X-Request-Id", "the host's")
		w.Header().Set("Server-Timing", "the host's")
		w.Header().Set("Corvo-Index", "7")
		w.WriteHeader(http.StatusCreated)
	})
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	got := w.send("POST", "/api/v1/enqueue/a%2Fb?q=1&q=2", key, `{}`,
		"X-Request-Id", "mine", "Corvo-Namespace", "mail",
		"corvo-service-token", "forged", "Corvo-Service-Token", "forged again", "Corvo-Service-Other", "forged",
		"X-Forwarded-For", "10.0.0.1", "X-Forwarded-Host", "evil", "X-Forwarded-Port", "1", "Forwarded", "for=x", "X-Real-Ip", "10.0.0.1",
		"Connection", "Corvo-Namespace, Corvo-Service-Token, Upgrade", "Upgrade", "websocket",
		"Idempotency-Key", "k", "If-Match", `"1"`, "If-None-Match", "*", "Corvo-Other", "x", "User-Agent", "tester")
	if got.StatusCode != http.StatusCreated || got.Header.Get("Corvo-Index") != "7" {
		t.Fatalf("%d %v %s", got.StatusCode, got.Header, got.body)
	}
	if ids := got.Header["X-Request-Id"]; len(ids) != 1 || ids[0] != "mine" {
		t.Errorf("the client sees the request ids %v", ids)
	}
	if timing := got.Header["Server-Timing"]; len(timing) != 1 || !strings.HasPrefix(timing[0], "proc;dur=") {
		t.Errorf("the client sees the timing %v", timing)
	}
	mu.Lock()
	defer mu.Unlock()
	if seen.URL.EscapedPath() != "/api/v1/enqueue/a%2Fb" || seen.URL.RawQuery != "q=1&q=2" {
		t.Errorf("the host sees %s", seen.URL)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + key, "Corvo-Namespace": "ns_a", fleet.ServiceHeader: w.gateway.member.HostToken(),
		"X-Request-Id": "mine", "Idempotency-Key": "k", "If-Match": `"1"`, "If-None-Match": "*", "Corvo-Other": "x", "User-Agent": "tester",
	} {
		if got := seen.Header[http.CanonicalHeaderKey(name)]; len(got) != 1 || got[0] != want {
			t.Errorf("the host sees %s: %q, want once %q", name, got, want)
		}
	}
	for _, name := range []string{"Corvo-Service-Other", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "Forwarded", "X-Real-Ip", "Upgrade", "Connection"} {
		if got, ok := seen.Header[name]; ok {
			t.Errorf("the host sees %s: %q", name, got)
		}
	}
	if claims, err := w.plane.Trusted().Verify(seen.Header.Get(fleet.ServiceHeader), "hosts", time.Now()); err != nil || claims.Role != string(tenancy.GatewayMember) {
		t.Errorf("the service token: %+v, %v", claims, err)
	}
}

// TestQueriesArePassedUnchanged checks that the gateway passes on malformed and unusual queries as they are.
// The server must refuse them, because a request without the malformed part can mean something else.
func TestQueriesArePassedUnchanged(t *testing.T) {
	t.Parallel()
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.RawQuery) })
	w.plane.Handle("/cloud/v1/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.RawQuery) })
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	for _, path := range []string{"/api/v1/queues/q", "/cloud/v1/orgs/o"} {
		for _, query := range []string{"", "b=2&a=1", "confirm=true&if_settled=true%", "unique_key=50%off", "a=1;b=2", "a=%zz&b", "a=%2B+x"} {
			if got := w.send("DELETE", path+"?"+query, key, ""); got.body != query {
				t.Errorf("%s?%s: the server sees %q", path, query, got.body)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{ControlPlane: "nowhere", Credential: "none"}); err == nil {
		t.Error("a gateway without a control plane")
	}
}

// traceID returns the trace id of a traceparent.
func traceID(t *testing.T, traceparent string) trace.TraceID {
	t.Helper()
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 {
		t.Fatalf("%q is no traceparent", traceparent)
	}
	id, err := trace.TraceIDFromHex(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	return id
}
