package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// shutOutLimit is far more than the promised two seconds, so that a stalled machine does not fail a test.
// A test with a whole cloud measures the promise.
const shutOutLimit = 20 * time.Second

// TestStreamsBothWays checks that the gateway buffers neither direction of a stream: the client writes a line
// only after the host has returned the line before.
func TestStreamsBothWays(t *testing.T) {
	t.Parallel()
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w)
		_ = flush.EnableFullDuplex()
		w.WriteHeader(http.StatusOK)
		_ = flush.Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			_, _ = io.WriteString(w, "echo "+lines.Text()+"\n")
			_ = flush.Flush()
		}
	})
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	in, out := io.Pipe()
	r := w.request(t.Context(), "POST", "/api/v1/stream", key, "")
	r.Body, r.ContentLength = in, -1
	a, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	answers := bufio.NewReader(a.Body)
	for _, line := range []string{"one", "two", "three"} {
		if _, err := io.WriteString(out, line+"\n"); err != nil {
			t.Fatal(err)
		}
		got, err := answers.ReadString('\n')
		if got != "echo "+line+"\n" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	_ = out.Close()
	if rest, err := io.ReadAll(answers); len(rest) != 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	w.stop()
	// Both bodies are counted to the byte.
	if got := w.plane.Used("ns_a"); got[billing.Requests] != 1 || got[billing.RequestBytes] != 14 || got[billing.ResponseBytes] != 29 {
		t.Errorf("counted: %+v", got)
	}
}

// parking is a host whose polls wait until their client is gone.
type parking struct {
	parked chan struct{}
	left   chan struct{}
}

func newParking() *parking {
	return &parking{parked: make(chan struct{}, 100), left: make(chan struct{}, 100)}
}

func (p *parking) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the caller leave
	if strings.HasSuffix(r.URL.Path, "/events") {
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	p.parked <- struct{}{}
	<-r.Context().Done()
	p.left <- struct{}{}
}

func within(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("after a minute it is still not so that %s", what)
	}
}

// TestLongPollEndsWithItsClient checks that the host learns at once that the client is gone, because a
// job fetched for it would be lost until its lease ends.
func TestLongPollEndsWithItsClient(t *testing.T) {
	t.Parallel()
	p := newParking()
	w := newTown(t, p.serve)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := w.client.Do(w.request(ctx, "POST", "/api/v1/fetch", key, `{"queues":["q"]}`))
		ended <- err
	}()
	within(t, p.parked, "the poll is parked")
	start := time.Now()
	cancel()
	within(t, p.left, "the host has seen the client leave")
	if took := time.Since(start); took > shutOutLimit {
		t.Errorf("the host heard of it after %v", took)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client: %v", err)
	}
	w.stop()
	if got := w.plane.Used("ns_a"); got[billing.Requests] != 0 {
		t.Errorf("a request without an answer is counted: %+v", got)
	}
}

// TestDrain checks that a shutdown ends present and future polls and streams of events, and nothing else.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := newParking()
	w := newTown(t, p.serve)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	poll := func(ended chan<- reply) { ended <- w.send("POST", "/api/v1/fetch", key, `{"queues":["q"]}`) }
	first, second := make(chan reply, 1), make(chan reply, 1)
	go poll(first)
	within(t, p.parked, "the poll is parked")
	ctx, cancel := context.WithCancel(t.Context())
	follow := func(path string) <-chan struct{} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if answer, err := w.client.Do(w.request(ctx, "GET", path, key, "")); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}()
		within(t, p.parked, path+" is under way")
		return ended
	}
	events, other := follow("/api/v1/events"), follow("/api/v1/queues")
	w.gateway.Drain()
	for _, ended := range []chan reply{first, second} {
		if ended == second {
			go poll(second)
		}
		if got := <-ended; got.StatusCode != 503 || got.code() != api.LeaderUnavailable {
			t.Errorf("a poll: %d %s", got.StatusCode, got.body)
		}
	}
	within(t, events, "the stream of events has ended")
	select {
	case <-other:
		t.Error("a request that waits for nothing was ended")
	default:
	}
	cancel()
	<-other
}

// TestRevocation checks that a revoked key stops new requests, waiting polls and open streams in under
// two seconds, and that no other key is affected.
func TestRevocation(t *testing.T) {
	t.Parallel()
	p := newParking()
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info") {
			ok(w, r)
			return
		}
		p.serve(w, r)
	})
	revoked := w.key(keyring.Namespace, time.Time{}, "ns_a")
	kept := w.key(keyring.Namespace, time.Time{}, "ns_a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var polls sync.WaitGroup
	var poll reply
	var streamErr error
	keptEnded, streaming := make(chan struct{}), make(chan struct{})
	polls.Go(func() { poll = w.send("POST", "/api/v1/fetch", revoked, `{}`) })
	polls.Go(func() {
		a, err := w.client.Do(w.request(t.Context(), "GET", "/api/v1/events", revoked, ""))
		if err != nil {
			t.Error(err)
			return
		}
		defer a.Body.Close()
		lines := bufio.NewReader(a.Body)
		if _, err := lines.ReadString('\n'); err != nil {
			t.Error(err)
		}
		close(streaming)
		_, streamErr = io.ReadAll(lines)
	})
	go func() {
		defer close(keptEnded)
		if _, err := w.client.Do(w.request(ctx, "POST", "/api/v1/fetch", kept, `{}`)); !errors.Is(err, context.Canceled) {
			t.Errorf("the poll of another key: %v", err)
		}
	}()
	for range 3 {
		within(t, p.parked, "all polls are parked")
	}
	within(t, streaming, "the stream's first line has come") // or it would be answered 401
	start := time.Now()
	w.put("ns_a", func(d *fleet.Doc) { d.Keys = d.Keys[1:] })
	polls.Wait()
	fleettest.Eventually(t, "the key is refused", func() bool { return w.send("GET", "/api/v1/info", revoked, "").StatusCode == 401 })
	if took := time.Since(start); took > shutOutLimit {
		t.Errorf("the key was good for %v after it was revoked, want at most %v", took, shutOutLimit)
	}
	within(t, p.left, "the host has seen the poll end")
	within(t, p.left, "the host has seen the stream end")
	if poll.StatusCode != 401 || poll.code() != api.Unauthorized {
		t.Errorf("the parked poll: %d %s", poll.StatusCode, poll.body)
	}
	if streamErr == nil {
		t.Error("the stream ended as if it were whole")
	}
	if got := w.send("GET", "/api/v1/info", kept, ""); got.StatusCode != 200 {
		t.Errorf("the other key: %d %s", got.StatusCode, got.body)
	}
	select {
	case <-keptEnded:
		t.Error("the other key's poll has ended too")
	default:
	}
	cancel()
	<-keptEnded
}

// TestExpiryUnderWay checks that a stream ends with its key.
func TestExpiryUnderWay(t *testing.T) {
	t.Parallel()
	p := newParking()
	w := newTown(t, p.serve)
	// The gateway's clock is turned on, not waited for.
	var mu sync.Mutex
	var ahead time.Duration
	w.stop()
	w.start(func(c *Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(ahead) }
	})
	key := w.key(keyring.Namespace, time.Now().Add(5*time.Minute), "ns_a")
	ended := make(chan reply, 1)
	go func() { ended <- w.send("POST", "/api/v1/fetch", key, `{}`) }()
	within(t, p.parked, "the poll is parked")
	mu.Lock()
	ahead = 6 * time.Minute
	mu.Unlock()
	if got := <-ended; got.StatusCode != 401 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	within(t, p.left, "the host has seen it end")
}

// TestOutlivesTheControlPlane checks that requests are served while the control plane is down, and that
// its changes apply when it is back.
func TestOutlivesTheControlPlane(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.plane.SetDown(true)
	fleettest.Eventually(t, "the gateway knows", func() bool { return !w.gateway.member.Connected() })
	for _, path := range []string{"/api/v1/info", "/readyz"} {
		if got := w.send("GET", path, key, ""); got.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
	w.put("ns_a", func(d *fleet.Doc) { d.Keys = nil })
	w.put("ns_b", nil)
	w.plane.SetDown(false)
	other := w.key(keyring.Namespace, time.Time{}, "ns_b")
	if got := w.send("GET", "/api/v1/info", key, ""); got.StatusCode != 401 {
		t.Errorf("a key revoked meanwhile: %d", got.StatusCode)
	}
	if got := w.send("GET", "/api/v1/info", other, ""); got.StatusCode != 200 {
		t.Errorf("a namespace made meanwhile: %d", got.StatusCode)
	}
}

// TestHostAway checks that a client gets a retryable error without internal details while the host of its
// namespace is away, and that the next request goes to the namespace's new host.
func TestHostAway(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	away := w.host.Listener.Addr().String()
	w.host.Close()
	got := w.send("POST", "/api/v1/enqueue", key, `{}`)
	if got.StatusCode != 503 || got.code() != api.LeaderUnavailable || got.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	if !strings.Contains(got.body, "nothing was done") || !strings.Contains(got.body, `"unchanged":true`) {
		t.Errorf("the answer leaves open what is certain: %s", got.body)
	}
	if strings.Contains(got.body, away) || strings.Contains(got.body, "host_1") || strings.Contains(got.body, "dial") {
		t.Errorf("the answer tells of the inside: %s", got.body)
	}
	other := newTown(t, ok)
	w.put("ns_a", func(d *fleet.Doc) { d.Members = memberAt(other.host.URL, 2) })
	w.settle()
	if got := w.send("POST", "/api/v1/enqueue", key, `{}`); got.StatusCode != 200 {
		t.Errorf("at its new host: %d %s", got.StatusCode, got.body)
	}
	w.put("ns_a", func(d *fleet.Doc) { d.Members = memberAt("not a URL", 2) })
	w.settle()
	if got := w.send("POST", "/api/v1/enqueue", key, `{}`); got.StatusCode != 500 || strings.Contains(got.body, "not a URL") {
		t.Errorf("with an address that is none: %d %s", got.StatusCode, got.body)
	}
}

// TestHostBehind checks that a request with a new key succeeds although its host does not know the key yet,
// and that an invalid key is refused.
func TestHostBehind(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	knows := false
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !knows {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	if got := w.send("POST", "/api/v1/fetch", key, `{}`); got.StatusCode != 503 || got.Header.Get("Retry-After") != "1" || !strings.Contains(got.body, "nothing was done") {
		t.Errorf("while the host does not know the key: %d %s", got.StatusCode, got.body)
	}
	mu.Lock()
	knows = true
	mu.Unlock()
	if got := w.send("POST", "/api/v1/fetch", key, `{}`); got.StatusCode != 200 {
		t.Errorf("when it does: %d %s", got.StatusCode, got.body)
	}
	w.stop()
	if got := w.plane.Used("ns_a")[billing.Requests]; got != 1 {
		t.Errorf("%d requests are counted, want the one that was served", got)
	}
}

// TestHostAhead checks that the worker gets the refusal of a host that learns of a revocation before the
// gateway.
func TestHostAhead(t *testing.T) {
	t.Parallel()
	var w *town
	ended := make(chan struct{})
	w = newTown(t, func(out http.ResponseWriter, _ *http.Request) {
		out.WriteHeader(http.StatusUnauthorized)
		go func() {
			defer close(ended)
			w.put("ns_a", func(d *fleet.Doc) { d.Keys = nil })
		}()
	})
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	if got := w.send("POST", "/api/v1/fetch", key, `{}`); got.StatusCode != 401 || got.code() != api.Unauthorized {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	<-ended
}

// TestTooLongWithoutTheControlPlane checks that a gateway whose documents are too old answers
// LEADER_UNAVAILABLE and not that the key is invalid.
func TestTooLongWithoutTheControlPlane(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ahead time.Duration
	w := newTown(t, ok, func(c *Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(ahead) }
	})
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.plane.SetDown(true)
	fleettest.Eventually(t, "it notices", func() bool { return !w.gateway.member.Connected() })
	turn := func(d time.Duration) reply {
		mu.Lock()
		ahead = d
		mu.Unlock()
		return w.send("GET", "/api/v1/info", key, "")
	}
	if got := turn(fleet.MaxAge - time.Minute); got.StatusCode != 200 {
		t.Errorf("as long as the documents serve: %d %s", got.StatusCode, got.body)
	}
	if got := turn(fleet.MaxAge + time.Minute); got.StatusCode != 503 || got.code() != api.LeaderUnavailable {
		t.Errorf("after it: %d %s", got.StatusCode, got.body)
	}
}

// TestNothingIsSentTwice checks that the gateway does not repeat a write without an Idempotency-Key after the
// host has broken off, because the host may have made the write.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls := 0
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.Path, "/info") {
			ok(w, r)
			return
		}
		mu.Lock()
		calls++
		mu.Unlock()
		panic(http.ErrAbortHandler)
	})
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.send("GET", "/api/v1/info", key, "") // so that there is a kept connection
	if got := w.send("POST", "/api/v1/enqueue", key, `{}`); got.StatusCode != 503 || !strings.Contains(got.body, "is not known") || strings.Contains(got.body, "unchanged") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	mu.Lock()
	defer mu.Unlock()
	if calls != 1 {
		t.Errorf("the host was called %d times", calls)
	}
}

// TestBrokenBody checks that a truncated body is an error of the client and not of the host.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		if err == nil {
			t.Error("the host has read a body to its end that had none")
		}
		panic(http.ErrAbortHandler)
	})
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	r := w.request(t.Context(), "POST", "/api/v1/enqueue", key, "")
	r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{})), 100
	if a, err := w.client.Do(r); err == nil {
		a.Body.Close()
		if a.StatusCode != 400 {
			t.Errorf("status %d", a.StatusCode)
		}
	}
	if _, blamed := w.gateway.failing.Load("host_1"); blamed {
		t.Error("the host is said to be away")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the client's disk is gone") }

// TestTrace checks that one trace leads from the client through the gateway to the host.
func TestTrace(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	parents := make(chan string, 2)
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		parents <- r.Header.Get("Traceparent")
		w.WriteHeader(http.StatusTeapot)
	}, func(c *Config) { c.Tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)) })
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	const client = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w.send("GET", "/api/v1/info", key, "", "Traceparent", client)
	w.send("GET", "/api/v1/info", "", "") // a refused request leaves no span
	fleettest.Eventually(t, "the span has ended", func() bool { return len(spans.Ended()) > 0 })
	all := spans.Ended()
	if len(all) != 1 {
		t.Fatalf("%d spans", len(all))
	}
	span := all[0]
	if span.Name() != telemetry.SpanGateway || span.Parent().SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("span %q under %s", span.Name(), span.Parent().SpanID())
	}
	got := map[string]string{}
	for _, a := range span.Attributes() {
		got[string(a.Key)] = a.Value.String()
	}
	if got["corvo.namespace"] != "ns_a" || got["http.response.status_code"] != "418" {
		t.Errorf("attributes %v", got)
	}
	parent := <-parents
	if traceID(t, parent) != traceID(t, client) || !strings.Contains(parent, span.SpanContext().SpanID().String()) {
		t.Errorf("the host sees %s, the span is %s", parent, span.SpanContext().SpanID())
	}
}
