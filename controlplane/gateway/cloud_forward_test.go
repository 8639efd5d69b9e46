package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestForwardsTheCloudAPI checks that a request reaches the control plane unchanged, except for headers
// that only a proxy may set.
func TestForwardsTheCloudAPI(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	seen := make(chan *http.Request, 1)
	w.plane.Handle("/cloud/v1/", func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		seen <- r
		out.Header().Set("Location", "/cloud/v1/operations/op_1")
		out.Header().Set("X-Request-Id", "the control plane's")
		out.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(out, `{"id":"op_1"}`)
	})
	got := w.send("POST", "/cloud/v1/orgs/a%2Fb/namespaces?x=1", "cv_org_secret", `{"name":"n"}`,
		"X-Request-Id", "mine", "Idempotency-Key", "k", "X-Forwarded-For", "10.9.9.9", "Forwarded", "for=x", "X-Real-Ip", "1.1.1.1",
		"Corvo-Service-Token", "forged", "Connection", "Authorization, Idempotency-Key", "Upgrade", "websocket", "X-Api-Key", "k2")
	if got.StatusCode != 202 || got.body != `{"id":"op_1"}` || got.Header.Get("Location") != "/cloud/v1/operations/op_1" {
		t.Errorf("%d %v %s", got.StatusCode, got.Header, got.body)
	}
	if ids := got.Header["X-Request-Id"]; len(ids) != 1 || ids[0] != "mine" {
		t.Errorf("the client sees the request ids %v", ids)
	}
	r := <-seen
	if r.Method != "POST" || r.URL.EscapedPath() != "/cloud/v1/orgs/a%2Fb/namespaces" || r.URL.RawQuery != "x=1" {
		t.Errorf("%s %s", r.Method, r.URL)
	}
	if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"name":"n"}` {
		t.Errorf("the body is %s, %v", body, err)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer cv_org_secret", "X-Api-Key": "k2", "Idempotency-Key": "k", "X-Request-Id": "mine", "X-Forwarded-For": "127.0.0.1",
		"Forwarded": "", "X-Real-Ip": "", "Upgrade": "", "Connection": "", fleet.ServiceHeader: "",
	} {
		if got := strings.Join(r.Header.Values(name), " and "); got != want {
			t.Errorf("the control plane sees %s: %q, want %q", name, got, want)
		}
	}
}

// TestHidesTheAddressOfTheLeader checks that the gateway puts its own URL for the leader's address into a
// refusal of the control plane, and changes nothing else in the refusal.
func TestHidesTheAddressOfTheLeader(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	w.plane.Handle("/cloud/v1/hosts", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Retry-After", "1")
		out.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(out, `{"error":"<no> leader","code":"LEADER_UNAVAILABLE","details":{"leader_addr":"http://10.0.0.7:8081","retry_after_ms":1000,"retryable":true}}`)
	})
	got := w.send("GET", "/cloud/v1/hosts", "cv_org_secret", "")
	var problem struct {
		Error   string
		Code    api.Code
		Details struct {
			Leader    string `json:"leader_addr"`
			After     int    `json:"retry_after_ms"`
			Retryable bool
		}
	}
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil || got.StatusCode != 503 || got.Header.Get("Retry-After") != "1" {
		t.Fatalf("%d %v %s: %v", got.StatusCode, got.Header, got.body, err)
	}
	d := problem.Details
	if problem.Error != "<no> leader" || problem.Code != api.LeaderUnavailable || d.Leader != w.url || d.After != 1000 || !d.Retryable || strings.Contains(got.body, "10.0.0.7") {
		t.Errorf("%s, want leader_addr %s", got.body, w.url)
	}
}

// TestForwardsNothingElse checks that no spelling of a path reaches the control plane's routes for hosts and
// gateways.
func TestForwardsNothingElse(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	var cloud atomic.Int32
	w.plane.Handle("/cloud/v1/", func(http.ResponseWriter, *http.Request) { cloud.Add(1) })
	joins, streams := w.plane.Joins(), w.plane.Streams()
	for _, path := range []string{
		fleet.JoinPath, fleet.DocsPath, fleet.UsagePath, fleet.ReportPath, "/cloud/v1/../../fleet/v1/join", "/cloud/v1/%2e%2e/%2e%2e/fleet/v1/join",
		"/cloud/v1/..%2f..%2ffleet/v1/join", "/cloud/v1//../../fleet/v1/join", "//fleet/v1/join", "/cloud/fleet/v1/join",
	} {
		for _, method := range []string{"GET", "POST"} {
			r := w.request(t.Context(), method, "/", w.credential, "{}")
			r.URL.Opaque = path
			if got := w.do(r); got.StatusCode != 404 && got.StatusCode != 405 {
				t.Errorf("%s %s: %d %s", method, path, got.StatusCode, got.body)
			}
		}
	}
	if cloud.Load() != 0 || w.plane.Joins() != joins || w.plane.Streams() != streams {
		t.Error("a request reached the control plane")
	}
}

// TestTheCloudAPIWhileTheControlPlaneIsAway checks that a gateway whose control plane is away refuses the
// cloud API with a Retry-After, and still serves the API of the data plane.
func TestTheCloudAPIWhileTheControlPlaneIsAway(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.plane.SetDown(true)
	for _, method := range []string{"GET", "POST"} {
		got := w.send(method, "/cloud/v1/orgs", key, "")
		if got.StatusCode != 503 || got.code() != api.LeaderUnavailable || !strings.Contains(got.body, "control plane") {
			t.Errorf("%s: %d %s", method, got.StatusCode, got.body)
		}
		if after := got.Header.Get("Retry-After"); after != "1" {
			t.Errorf("%s: Retry-After %q", method, after)
		}
		if strings.Contains(got.body, w.plane.URL[len("http://"):]) {
			t.Errorf("the client is told where the control plane is: %s", got.body)
		}
	}
	if got := w.send("GET", "/api/v1/queues", key, ""); got.StatusCode != 200 {
		t.Errorf("jobs: %d %s", got.StatusCode, got.body)
	}
}

// TestDrainEndsLongPollsOfTheCloud checks that a client that waits for an operation is sent to another
// gateway at once, and that a write is answered.
func TestDrainEndsLongPollsOfTheCloud(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	arrived, written := make(chan struct{}, 2), make(chan struct{})
	w.plane.Handle("GET /cloud/v1/operations/{id}", func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	w.plane.Handle("POST /cloud/v1/orgs", func(out http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-written
		out.WriteHeader(http.StatusCreated)
	})
	poll, write := make(chan reply, 1), make(chan reply, 1)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { poll <- w.send("GET", "/cloud/v1/operations/op_1?wait=60s", "t", "") })
	work.Go(func() { write <- w.send("POST", "/cloud/v1/orgs", "t", "{}") })
	<-arrived
	<-arrived
	w.gateway.Drain()
	if got := <-poll; got.StatusCode != 503 || !strings.Contains(got.body, "shutting down") {
		t.Errorf("the poll: %d %s", got.StatusCode, got.body)
	}
	close(written)
	if got := <-write; got.StatusCode != 201 {
		t.Errorf("the write: %d %s", got.StatusCode, got.body)
	}
}

// TestGuessesAtCloudTokens checks that an invalid cloud token counts as a failure of the client's address.
func TestGuessesAtCloudTokens(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := newTown(t, ok, func(c *Config) {
		c.Limits = ratelimit.Limits{Failures: 2}
		c.Now = func() time.Time { return now }
	})
	w.plane.Handle("/cloud/v1/", func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusUnauthorized) })
	counts := map[int]int{}
	for range 20 {
		counts[w.send("GET", "/cloud/v1/orgs", "wrong", "").StatusCode]++
	}
	if counts[401] == 0 || counts[429] < 10 || counts[401]+counts[429] != 20 {
		t.Errorf("%v", counts)
	}
}

// TestConnectionNamesACredential checks that a client whose Connection header names its credential is
// served, and that its host does not count as failing.
func TestConnectionNamesACredential(t *testing.T) {
	t.Parallel()
	var log safeLog
	w := newTown(t, func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" || r.Header.Get("Idempotency-Key") != "once" {
			out.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(out, "connection %q, keep-alive %q", r.Header.Get("Connection"), r.Header.Get("Keep-Alive"))
	}, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for range 2 {
		fmt.Fprintf(conn, "POST /api/v1/enqueue HTTP/1.1\r\nHost: x\r\nConnection: authorization, Idempotency-Key, keep-alive\r\nConnection: Content-Length\r\n"+
			"Keep-Alive: timeout=5\r\nAuthorization: Bearer %s\r\nIdempotency-Key: once\r\nContent-Length: 2\r\n\r\n{}", key)
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != 200 || string(body) != `connection "", keep-alive ""` {
			t.Errorf("%d %s, %v", answer.StatusCode, body, err)
		}
	}
	if strings.Contains(log.String(), "cannot be reached") {
		t.Errorf("the host is said to fail:\n%s", log.String())
	}
	if _, failing := w.gateway.failing.Load("host_1"); failing {
		t.Error("the host counts as failing")
	}
}

// safeLog collects the log of any goroutine.
type safeLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *safeLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
