package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api"
)

// scripted is a server that sends the responses of a list, and then the last one for ever.
type scripted struct {
	mu      sync.Mutex
	answers []func(http.ResponseWriter)
	got     []*http.Request
	bodies  []string
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.bodies = append(s.got, r), append(s.bodies, string(body))
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	answer(w)
}

// requests returns the requests so far, with their bodies.
func (s *scripted) requests() ([]*http.Request, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got, s.bodies
}

func says(status int, body string, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// hangsUp closes the connection.
func hangsUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// against returns a client of a scripted server, which records its waits instead of sleeping.
func against(t *testing.T, answers ...func(http.ResponseWriter)) (*Client, *scripted, *[]time.Duration) {
	t.Helper()
	s := &scripted{answers: answers}
	front := httptest.NewServer(s)
	t.Cleanup(front.Close)
	c, err := New(front.URL+"/", "cv_key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var waits []time.Duration
	c.sleep = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
	return c, s, &waits
}

const (
	overloaded = `{"error":"later","code":"OVERLOADED","details":{"retryable":true,"retry_after_ms":2500}}`
	noLeader   = `{"error":"wait","code":"LEADER_UNAVAILABLE"}`
	changeless = `{"error":"wait","code":"LEADER_UNAVAILABLE","details":{"retryable":true,"retry_after_ms":1000,"unchanged":true}}`
	enqueued   = `{"job_id":"job_1","status":"pending","unique_existing":false}`
)

func TestRetries(t *testing.T) {
	t.Parallel()
	enqueue := func(c *Client) error {
		_, err := c.Enqueue(context.Background(), api.EnqueueRequest{Queue: "q"})
		return err
	}
	fetch := func(c *Client) error {
		_, err := c.Fetch(context.Background(), api.FetchRequest{Queues: []string{"q"}})
		return err
	}
	keyed := func(c *Client) error {
		_, err := c.Fetch(WithIdempotencyKey(context.Background(), "mine"), api.FetchRequest{Queues: []string{"q"}})
		return err
	}
	ack := func(c *Client) error { return c.Ack(context.Background(), "job_1", api.AckRequest{}) }
	get := func(c *Client) error { _, err := c.Job(context.Background(), "job_1", Read{}); return err }
	for _, c := range []struct {
		name    string
		call    func(*Client) error
		answers []func(http.ResponseWriter)
		tries   int
		key     bool
		code    api.Code // of the outcome; "" = success, Internal = another error
	}{
		{"a write refused for load", enqueue, []func(http.ResponseWriter){says(429, overloaded), says(201, enqueued)}, 2, true, ""},
		{"a write of unknown outcome", enqueue, []func(http.ResponseWriter){hangsUp, says(503, noLeader), says(201, enqueued)}, 3, true, ""},
		{"a write without a key, refused for load", enqueue, []func(http.ResponseWriter){says(429, overloaded), says(201, enqueued)}, 2, false, ""},
		{"a write without a key, of unknown outcome", enqueue, []func(http.ResponseWriter){hangsUp}, 1, false, api.Internal},
		{"a write without a key that changed nothing", enqueue, []func(http.ResponseWriter){says(503, changeless), says(201, enqueued)}, 2, false, ""},
		{"a write refused for good", enqueue, []func(http.ResponseWriter){says(400, `{"error":"x","code":"VALIDATION_ERROR"}`)}, 1, true, api.ValidationError},
		{"a write that never works", enqueue, []func(http.ResponseWriter){says(503, noLeader)}, 1 + DefaultRetries, true, api.LeaderUnavailable},
		{"a fetch refused for load", fetch, []func(http.ResponseWriter){says(429, overloaded), says(204, "")}, 2, false, ""},
		{"a fetch of unknown outcome", fetch, []func(http.ResponseWriter){hangsUp}, 1, false, api.Internal},
		{"a fetch without a leader", fetch, []func(http.ResponseWriter){says(503, noLeader)}, 1, false, api.LeaderUnavailable},
		{"a fetch that changed nothing", fetch, []func(http.ResponseWriter){says(503, changeless), says(204, "")}, 2, false, ""},
		{"a fetch with a key, of unknown outcome", keyed, []func(http.ResponseWriter){hangsUp, says(503, noLeader), says(200, `{"job_id":"job_1"}`)}, 3, true, ""},
		{"a fetch with a key that has lost its jobs", keyed, []func(http.ResponseWriter){hangsUp, says(409, `{"error":"x","code":"LEASE_LOST"}`)}, 2, true, api.LeaseLost},
		{"an ack of unknown outcome", ack, []func(http.ResponseWriter){hangsUp, says(200, `{"status":"ok"}`)}, 2, false, ""},
		{"a read", get, []func(http.ResponseWriter){hangsUp, says(503, noLeader), says(200, `{"id":"job_1"}`)}, 3, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, server, _ := against(t, c.answers...)
			if c.key {
				WithKeyedWrites()(client)
			}
			if err := c.call(client); api.CodeOf(err) != c.code {
				t.Errorf("outcome %v", err)
			}
			got, bodies := server.requests()
			if len(got) != c.tries {
				t.Fatalf("%d tries, want %d", len(got), c.tries)
			}
			first := got[0].Header.Get("Idempotency-Key")
			if (first != "") != c.key {
				t.Errorf("Idempotency-Key %q", first)
			}
			for i, r := range got {
				if r.Header.Get("Idempotency-Key") != first || bodies[i] != bodies[0] || r.Header.Get("Authorization") != "Bearer cv_key" {
					t.Errorf("try %d differs: %v %s", i, r.Header, bodies[i])
				}
			}
		})
	}
}

// The wait is at least the server's Retry-After. Without one, waits grow.
func TestBackoff(t *testing.T) {
	t.Parallel()
	c, _, waits := against(t, says(429, overloaded), says(429, `{"error":"x","code":"RATE_LIMITED"}`, "Retry-After", "7"), says(429, `{"error":"x","code":"QUEUE_FULL"}`), says(201, enqueued))
	if _, err := c.Enqueue(context.Background(), api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	w := *waits
	if len(w) != 3 {
		t.Fatalf("waits %v, want three", w)
	}
	if w[0] != 2500*time.Millisecond || w[1] != 7*time.Second {
		t.Errorf("waits %v, want those that the server asks for first", w)
	}
	if w[2] < 200*time.Millisecond || w[2] > 400*time.Millisecond {
		t.Errorf("the third wait is %v, want 200 to 400 ms", w[2])
	}
	for try := range 100 {
		if d := backoff(try, nil); d <= 0 || d > mostWait {
			t.Errorf("wait %d is %v", try, d)
		}
	}
}

// TestRetryAfterDates checks that a date in Retry-After counts from the server's own, and that a past or distant one is no
// wait.
func TestRetryAfterDates(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) // not this machine's clock
	for _, c := range []struct {
		header string
		want   time.Duration
	}{
		{now.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second},
		{now.Add(time.Hour).Format(time.RFC850), time.Hour},
		{now.Add(-time.Minute).Format(http.TimeFormat), 0},
		{now.Add(367 * 24 * time.Hour).Format(http.TimeFormat), 0},
		{"soon", 0},
		{"-5", 0},
	} {
		client, _, _ := against(t, says(503, noLeader, "Retry-After", c.header, "Date", now.Format(http.TimeFormat)))
		WithRetries(0)(client)
		_, err := client.Info(t.Context())
		var e *api.Error
		if !errors.As(err, &e) || e.RetryAfter != c.want {
			t.Errorf("Retry-After %s: %#v, want %v", c.header, err, c.want)
		}
	}
	// Without the server's date, this clock counts.
	if got := retryAfter(http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}); got < 59*time.Minute || got > time.Hour {
		t.Errorf("an hour from now is a wait of %v", got)
	}
}

func TestNoRetries(t *testing.T) {
	t.Parallel()
	c, server, _ := against(t, says(429, overloaded))
	WithRetries(0)(c)
	_, err := c.Enqueue(context.Background(), api.EnqueueRequest{Queue: "q"})
	var e *api.Error
	if !errors.As(err, &e) {
		t.Fatalf("%#v", err)
	}
	want := &api.Error{Code: api.Overloaded, Message: "later", Details: e.Details, RetryAfter: 2500 * time.Millisecond}
	if diff := cmp.Diff(want, e, cmpopts.IgnoreUnexported(api.Error{})); diff != "" {
		t.Errorf("the error (-want +got):\n%s", diff)
	}
	if e.Details["retryable"] != true {
		t.Errorf("its details are %v, want retryable", e.Details)
	}
	if got, _ := server.requests(); len(got) != 1 || got[0].Header.Get("Idempotency-Key") != "" {
		t.Errorf("%d tries, key %q", len(got), got[0].Header.Get("Idempotency-Key"))
	}
}

// The key of the caller is sent with each write, and a call ends with its context.
func TestContext(t *testing.T) {
	t.Parallel()
	c, server, _ := against(t, says(503, noLeader))
	ctx, cancel := context.WithCancel(WithIdempotencyKey(context.Background(), "mine"))
	tries := 0
	c.sleep = func(ctx context.Context, _ time.Duration) error {
		if tries++; tries == 2 {
			cancel()
		}
		return ctx.Err()
	}
	if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); !errors.Is(err, &api.Error{Code: api.LeaderUnavailable}) {
		t.Errorf("%v", err)
	}
	if got, _ := server.requests(); len(got) != 2 || got[1].Header.Get("Idempotency-Key") != "mine" {
		t.Errorf("%d tries, %v", len(got), got)
	}
}

// The wait for an operation that ends with its context says why the operation has not ended.
func TestAWaitSaysWhyItWaited(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	running := says(200, `{"id":"op_1","status":"running","message":"no host has room"}`)
	c, _, _ := against(t, running, func(w http.ResponseWriter) {
		cancel()
		running(w)
	})
	_, err := (&Cloud{Client: c}).WaitOperation(ctx, "op_1")
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no host has room") {
		t.Errorf("%v", err)
	}
}

// A response that did not come from Corvo still gets a code.
func TestForeignAnswers(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]api.Code{
		401: api.Unauthorized, 403: api.Forbidden, 404: api.NotFound, 405: api.MethodNotAllowed, 413: api.PayloadTooLarge, 418: api.ValidationError,
		429: api.RateLimited, 500: api.Internal, 502: api.LeaderUnavailable, 503: api.LeaderUnavailable, 504: api.LeaderUnavailable, 301: api.Internal,
	} {
		c, _, _ := against(t, says(status, "<html>"))
		WithRetries(0)(c)
		if _, err := c.Info(context.Background()); api.CodeOf(err) != code {
			t.Errorf("%d is %v, want %s", status, err, code)
		}
	}
	c, _, _ := against(t, says(200, "<html>"))
	if _, err := c.Info(context.Background()); err == nil {
		t.Error("an answer that is no JSON was taken")
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "localhost:8080", "ftp://x", "http://", "http://x/?a=b", "http://x#y", "http://x:y", "127.0.0.1:8080", "http://x/api/v1", "http://x/behind/api/v1/"} {
		if _, err := New(bad, ""); err == nil {
			t.Errorf("%q was taken", bad)
		} else if !strings.Contains(bad, "http") && !strings.Contains(err.Error(), "want a URL like http://") {
			t.Errorf("%q is refused with %q, which does not say what to write", bad, err)
		}
	}
	c, err := New("https://queue.example/prefix//", "")
	if err != nil || c.base != "https://queue.example/prefix" {
		t.Errorf("%q, %v", c.base, err)
	}
}

// Ids and names are escaped, and reads carry their parameters.
func TestPaths(t *testing.T) {
	t.Parallel()
	c, server, _ := against(t, says(200, `{}`))
	ctx := context.Background()
	_ = c.Ack(ctx, "a/b?c", api.AckRequest{})
	_, _ = c.Job(ctx, "x", Read{MinIndex: "a+b", Strong: true})
	_, _ = c.Queue(ctx, "q", Read{Eventual: true})
	for i, want := range []string{"/api/v1/ack/a%2Fb%3Fc", "/api/v1/jobs/x?consistency=strong&min_index=a%2Bb", "/api/v1/queues/q?consistency=eventual"} {
		if all, _ := server.requests(); all[i].RequestURI != want {
			t.Errorf("asked for %s, want %s", all[i].RequestURI, want)
		}
	}
}

// Many goroutines share connections: there are never more connections than callers, even if responses are
// errors.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	const callers, calls = 128, 20
	var opened, served atomic.Int64
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if served.Add(1)%2 == 0 {
			says(400, `{"error":"x","code":"VALIDATION_ERROR","details":{"fields":[]}}`+"\n")(w)
			return
		}
		_ = json.NewEncoder(w).Encode(api.Info{ServerVersion: "v"})
	}))
	front.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	front.Start()
	t.Cleanup(front.Close)
	c, err := New(front.URL, "", WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				_, _ = c.Info(context.Background())
			}
		})
	}
	all.Wait()
	if n := served.Load(); n != callers*calls {
		t.Errorf("%d calls were served", n)
	}
	// net/http opens connections ahead when all are busy, so a few may stay unused.
	if n := opened.Load(); n > 2*callers {
		t.Errorf("%d connections for %d callers", n, callers)
	}
}

// A heartbeat with usage is repeated under one report id, and carries no Idempotency-Key.
func TestHeartbeatWithUsageIsRepeated(t *testing.T) {
	t.Parallel()
	client, server, _ := against(t, hangsUp, says(503, noLeader), says(200, `{"jobs":{}}`))
	WithKeyedWrites()(client)
	req := api.HeartbeatRequest{Jobs: map[string]*api.HeartbeatJob{"job_1": {Usage: &api.ReportedUsage{InputTokens: 1}}}}
	if _, err := client.Heartbeat(t.Context(), req); err != nil {
		t.Error(err)
	}
	got, bodies := server.requests()
	if len(got) != 3 || !strings.Contains(bodies[0], `"report_id":"`) {
		t.Fatalf("requests %q, want three with a report id", bodies)
	}
	for i, r := range got {
		if bodies[i] != bodies[0] || r.Header.Get("Idempotency-Key") != "" {
			t.Errorf("try %d differs: %v %s", i, r.Header, bodies[i])
		}
	}
	if req.ReportID != "" {
		t.Error("the caller's request has changed")
	}
}

// A batch with an ack that continues is not repeated after an unknown outcome, and carries no
// Idempotency-Key.
func TestAckBatchThatContinuesIsNotRepeated(t *testing.T) {
	t.Parallel()
	client, server, _ := against(t, hangsUp)
	WithKeyedWrites()(client)
	acks := []api.AckItem{{JobID: "job_1"}, {JobID: "job_2", AckRequest: api.AckRequest{AgentStatus: api.AgentContinue}}}
	if _, err := client.AckBatch(t.Context(), acks); err == nil {
		t.Error("a lost response counts as one")
	}
	if got, _ := server.requests(); len(got) != 1 || got[0].Header.Get("Idempotency-Key") != "" {
		t.Errorf("%d requests, the first with the header %v", len(got), got[0].Header)
	}
}

// FetchBatch returns and fails the jobs after one whose id cannot be decoded, and names that one in its error.
func TestFetchBatchWithAnUnidentifiableJob(t *testing.T) {
	t.Parallel()
	client, server, _ := against(t, says(200, `{"jobs":[{"job_id":5,"lease_token":"a"},{"job_id":"job_2","lease_token":"b"},
		{"job_id":"job_3","lease_token":"c","tags":5},{"job_id":"job_4","lease_token":5},{"job_id":"job_5","lease_token":"e"}]}`), says(200, `{}`))
	jobs, err := client.FetchBatch(t.Context(), api.FetchBatchRequest{})
	if len(jobs) != 2 || jobs[0].JobID != "job_2" || jobs[1].JobID != "job_5" {
		t.Errorf("fetched %+v, want job_2 and job_5", jobs)
	}
	if err == nil || !strings.Contains(err.Error(), "job 1 of 5") || !strings.Contains(err.Error(), `job 4 of 5 ("job_4")`) {
		t.Errorf("error %v", err)
	}
	got, _ := server.requests()
	if len(got) != 2 || got[1].URL.Path != "/api/v1/fail/job_3" {
		t.Errorf("%d requests, want a fetch and a fail of job_3", len(got))
	}
}
