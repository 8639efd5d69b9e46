package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy/keyring"
)

// patient makes the gateway of a town wait for a host as long as the test may take.
func patient(c *Config) { c.HostWait = time.Minute }

// waits waits until n requests wait for a host.
func (w *town) waits(n int) {
	w.t.Helper()
	fleettest.Eventually(w.t, fmt.Sprintf("%d requests wait", n), func() bool { return w.gateway.waiting.number() == n })
}

// TestWaitsForItsHost sends a write to a host that is away. When a document names another host, the gateway
// sends a probe to that host, and then the write with its whole body and the gateway's newest token. No
// request names the host of one member and the store of the other.
func TestWaitsForItsHost(t *testing.T) {
	t.Parallel()
	connections := &http.Transport{DisableKeepAlives: true}
	var foreign atomic.Int32
	w := newTown(t, ok, patient, func(c *Config) {
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if to := proxiedOf(r.Context()); (to.host == "host_2") != (to.store == "store_2") {
				foreign.Add(1)
			}
			return connections.RoundTrip(r)
		})
	})
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.host.Close()
	body := strings.Repeat("x", MaxRepeatedRequest)
	answered := make(chan reply, 1)
	go func() { answered <- w.send("POST", "/api/v1/enqueue/a%2Fb?q=50%off", key, body) }()
	w.waits(1)
	var served atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		served.Add(1)
		got, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(out, r.URL.EscapedPath(), "?", r.URL.RawQuery, " ", string(got) == body, err, r.Header.Get(fleet.ServiceHeader) == w.gateway.member.HostToken())
	}))
	defer other.Close()
	w.put("ns_a", func(d *fleet.Doc) { d.Members = memberAt(other.URL+"/base", 2) })
	if got := <-answered; got.StatusCode != 200 || got.body != "/base/api/v1/enqueue/a%2Fb?q=50%off true <nil> true" {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	if served.Load() != 1 {
		t.Errorf("the new host was called %d times", served.Load())
	}
	if foreign.Load() != 0 {
		t.Error("a request went to another member than the document names")
	}
	w.waits(0)
	if w.gateway.waiting.served.Load() != 1 {
		t.Error("the wait is not counted as served")
	}
	if kept := w.gateway.room.used.Load(); kept != 0 {
		t.Errorf("%d bytes of bodies are still kept", kept)
	}
	w.stop()
	if got := w.plane.Used("ns_a"); got[billing.Requests] != 1 || got[billing.RequestBytes] != MaxRepeatedRequest {
		t.Errorf("counted: %+v", got)
	}
}

// TestRepeatsWhatDoesNoHarm sends requests to a host that fails the first try of each request in some way,
// and serves the second. The gateway tries again only if the first try had no effect, or if a repeat does no
// harm.
func TestRepeatsWhatDoesNoHarm(t *testing.T) {
	t.Parallel()
	refuse := func(status int, outcome string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if outcome != "" {
				w.Header().Set(fleet.OutcomeHeader, outcome)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "the host's")
		}
	}
	breakOff := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		name        string
		first       http.HandlerFunc
		method, key string
		body        int
		status      int
		says        string
	}{
		{"refused without effect", refuse(503, fleet.Unchanged), "POST", "", 9, 200, "served"},
		{"refused, outcome unknown", refuse(503, fleet.Unknown), "POST", "", 9, 503, "the host's"},
		{"refused, outcome unknown, with a key", refuse(503, fleet.Unknown), "POST", "k", 9, 200, "served"},
		{"a read, outcome unknown", refuse(503, fleet.Unknown), "GET", "", 0, 200, "served"},
		{"refused for another reason", refuse(503, ""), "GET", "", 0, 503, "the host's"},
		{"an unknown credential", refuse(401, ""), "POST", "", 9, 200, "served"},
		{"broken off", breakOff, "POST", "", 9, 503, "is not known"},
		{"broken off, with a key", breakOff, "POST", "k", 9, 200, "served"},
		{"a read, broken off", breakOff, "GET", "", 0, 200, "served"},
		{"a deletion, broken off", breakOff, "DELETE", "", 0, 503, "is not known"},
		{"the largest body", refuse(503, fleet.Unchanged), "POST", "", MaxRepeatedRequest, 200, "served"},
		{"too large a body", refuse(503, fleet.Unchanged), "POST", "", MaxRepeatedRequest + 1, 503, "the host's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, length := range []string{"length known", "length not known"} {
				var calls atomic.Int32
				w := newTown(t, func(out http.ResponseWriter, r *http.Request) {
					switch {
					case r.URL.Path == "/healthz":
					case calls.Add(1) == 1:
						c.first(out, r)
					default:
						if got, err := io.ReadAll(r.Body); len(got) != c.body || err != nil {
							t.Errorf("%s: the host has read %d bytes, want %d: %v", length, len(got), c.body, err)
						}
						_, _ = io.WriteString(out, "served")
					}
				}, patient)
				key := w.key(keyring.Namespace, time.Time{}, "ns_a")
				r := w.request(t.Context(), c.method, "/api/v1/x", key, strings.Repeat("x", c.body))
				if c.key != "" {
					r.Header.Set("Idempotency-Key", c.key)
				}
				if length != "length known" && c.body > 0 {
					r.ContentLength, r.GetBody = -1, nil
				}
				got := w.do(r)
				if got.StatusCode != c.status || !strings.Contains(got.body, c.says) {
					t.Errorf("%s: %d %s, want %d with %q", length, got.StatusCode, got.body, c.status, c.says)
				}
				for _, inner := range []string{fleet.OutcomeHeader, fleet.LeavingHeader} {
					if got.Header.Get(inner) != "" {
						t.Errorf("%s: the client sees %s", length, inner)
					}
				}
				want := map[int]int32{200: 2, 503: 1}[c.status]
				if calls.Load() != want {
					t.Errorf("%s: the host was called %d times, want %d", length, calls.Load(), want)
				}
				w.stop()
				if kept := w.gateway.room.used.Load(); kept != 0 {
					t.Errorf("%s: %d bytes of bodies are still kept", length, kept)
				}
			}
		})
	}
}

// TestSendsNothingToALeavingHost checks that a response of a host that shuts down reaches the client, and that later
// requests wait until a probe finds the host back. Requests that wait together share the probes.
func TestSendsNothingToALeavingHost(t *testing.T) {
	t.Parallel()
	var leaving atomic.Bool
	var probes, together, most, calls atomic.Int32
	leaving.Store(true)
	w := newTown(t, func(out http.ResponseWriter, r *http.Request) {
		if leaving.Load() {
			out.Header().Set(fleet.LeavingHeader, "true")
		}
		if r.URL.Path == "/healthz" {
			probes.Add(1)
			most.Store(max(most.Load(), together.Add(1)))
			together.Add(-1)
			return
		}
		calls.Add(1)
	}, patient)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	if got := w.send("POST", "/api/v1/enqueue", key, `{}`); got.StatusCode != 200 || got.Header.Get(fleet.LeavingHeader) != "" {
		t.Fatalf("%d %v %s", got.StatusCode, got.Header, got.body)
	}
	const n = 50
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if got := w.send("POST", "/api/v1/enqueue", key, `{}`); got.StatusCode != 200 {
				t.Errorf("%d %s", got.StatusCode, got.body)
			}
		})
	}
	w.waits(n)
	fleettest.Eventually(t, "some probes have found the host leaving", func() bool { return probes.Load() >= 3 })
	if calls.Load() != 1 {
		t.Errorf("a host that shuts down got %d requests, want the first one only", calls.Load())
	}
	leaving.Store(false)
	all.Wait()
	if calls.Load() != n+1 || most.Load() != 1 {
		t.Errorf("the host got %d requests, want %d, and %d probes at the same time, want 1", calls.Load(), n+1, most.Load())
	}
}

// TestWaitEndsWithItsClient checks that a request whose client has left, or whose key is revoked, does not wait.
func TestWaitEndsWithItsClient(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok, patient)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.host.Close()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		answer, err := w.client.Do(w.request(ctx, "POST", "/api/v1/enqueue", key, `{}`))
		if err == nil {
			answer.Body.Close()
		}
		left <- err
	}()
	answered := make(chan reply, 1)
	go func() { answered <- w.send("POST", "/api/v1/enqueue", key, `{}`) }()
	w.waits(2)
	cancel()
	if err := <-left; err == nil {
		t.Error("the client that left has an answer")
	}
	w.waits(1)
	w.put("ns_a", func(d *fleet.Doc) { d.Keys = nil })
	if got := <-answered; got.StatusCode != 401 {
		t.Errorf("with a revoked key: %d %s", got.StatusCode, got.body)
	}
	w.waits(0)
}

// TestWaitsAreBounded checks the bounds of the waiting requests of all namespaces and of one, and the bound
// of the kept bytes.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	var waiting waitingRequests
	for i := range MaxWaiting {
		if !waiting.enter(fmt.Sprint("ns_", i/MaxWaitingOfNamespace)) {
			t.Fatalf("request %d may not wait", i)
		}
	}
	if waiting.enter("ns_other") || waiting.full.Load() != 1 {
		t.Error("a request waits beyond the bound of all namespaces")
	}
	waiting.leave("ns_1")
	if waiting.enter("ns_0") {
		t.Error("a request waits beyond the bound of its namespace")
	}
	if !waiting.enter("ns_1") {
		t.Error("a place that was left is not free")
	}
	var kept room
	if !kept.take(MaxKeptBytes) || kept.take(1) {
		t.Error("the bound of kept bytes is not met")
	}
	kept.give(MaxKeptBytes)
	if !kept.take(1) {
		t.Error("bytes that were given back are not free")
	}
}

// TestRefusesWhenTooManyWait checks the answer to a request that may not wait.
func TestRefusesWhenTooManyWait(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok, patient)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.host.Close()
	for range MaxWaitingOfNamespace {
		w.gateway.waiting.enter("ns_a")
	}
	if got := w.send("POST", "/api/v1/enqueue", key, `{}`); got.StatusCode != 503 || got.code() != api.LeaderUnavailable || !strings.Contains(got.body, "nothing was done") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestRepeatsACall checks that a call of the RPC that a host refused without effect is repeated, over Connect, whose
// status tells the refusal, and over gRPC-Web, whose status is always 200.
func TestRepeatsACall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	served := connect.NewUnaryHandler(rpc.Prefix+"Enqueue", func(_ context.Context, m *connect.Request[workerpb.EnqueueRequest]) (*connect.Response[workerpb.EnqueueResponse], error) {
		if calls.Add(1)%2 == 1 {
			return nil, rpc.Error(api.Errorf(api.LeaderUnavailable, "not now"))
		}
		return connect.NewResponse(&workerpb.EnqueueResponse{JobId: m.Msg.Queue}), nil
	})
	host := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Load()%2 == 0 {
			w.Header().Set(fleet.OutcomeHeader, fleet.Unchanged)
		}
		served.ServeHTTP(w, r)
	}))
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	host.Config.Protocols = both
	host.Start()
	t.Cleanup(host.Close)
	w := newTown(t, ok, patient)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.put("ns_a", func(d *fleet.Doc) { d.Members = memberAt(host.URL, 1) })
	w.settle()
	for name, protocol := range map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(), "gRPC-Web": connect.WithGRPCWeb(),
	} {
		before := calls.Load()
		client := workerpbconnect.NewWorkerServiceClient(w.client, w.url, protocol)
		ask := connect.NewRequest(&workerpb.EnqueueRequest{Queue: "mail"})
		ask.Header().Set("X-Api-Key", key)
		if got, err := client.Enqueue(t.Context(), ask); err != nil || got.Msg.JobId != "mail" || calls.Load() != before+2 {
			t.Errorf("%s: %v, %v after %d calls", name, got, err, calls.Load()-before)
		}
	}
}
