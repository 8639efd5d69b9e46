package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

// said is a request of a worker.
type said struct {
	at    time.Duration // since the beginning
	route string        // after /api/v1/, without the job
	body  string
}

// clockwork answers the requests of a worker without a network, so that the test controls time. It does
// not model leases, which are tested with a real node.
type clockwork struct {
	began time.Time

	mu     sync.Mutex
	jobs   []api.FetchedJob
	came   chan struct{} // a job has come
	heard  []said
	answer func(s said) (status int, body string) // status 0 = as usual, negative = no network
}

func newClockwork(jobs ...string) *clockwork {
	c := &clockwork{began: time.Now(), came: make(chan struct{}, 1)}
	for _, id := range jobs {
		c.jobs = append(c.jobs, leased(id))
	}
	return c
}

func leased(id string) api.FetchedJob {
	return api.FetchedJob{JobID: id, Queue: "q", Attempt: 1, LeaseDuration: 60, LeaseToken: "token of " + id, Payload: json.RawMessage(`{}`)}
}

func (c *clockwork) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, leased(id))
	c.came <- struct{}{}
}

func (c *clockwork) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	route, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/job_")
	s := said{time.Since(c.began), route, string(body)}
	c.mu.Lock()
	c.heard = append(c.heard, s)
	answer := c.answer
	c.mu.Unlock()
	status, out := 0, ""
	if answer != nil {
		status, out = answer(s)
	}
	if status < 0 {
		return nil, errors.New("the network is gone")
	}
	if status == 0 {
		status = http.StatusOK
		if out, err = c.usual(r.Context(), s); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(out))}, nil
}

// usual is the response of a normal server.
func (c *clockwork) usual(ctx context.Context, s said) (string, error) {
	var out any = map[string]string{"status": "ok"}
	switch s.route {
	case "fetch/batch":
		var req api.FetchBatchRequest
		if err := json.Unmarshal([]byte(s.body), &req); err != nil {
			return "", err
		}
		time.Sleep(time.Millisecond)
		c.mu.Lock()
		empty := len(c.jobs) == 0
		c.mu.Unlock()
		if empty {
			select {
			case <-c.came:
			case <-time.After(pollWait):
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		c.mu.Lock()
		n := min(*req.Count, len(c.jobs))
		out = api.FetchBatchResponse{Jobs: c.jobs[:n]}
		c.jobs = c.jobs[n:]
		c.mu.Unlock()
	case "heartbeat":
		var req api.HeartbeatRequest
		if err := json.Unmarshal([]byte(s.body), &req); err != nil {
			return "", err
		}
		resp := api.HeartbeatResponse{Jobs: map[string]api.HeartbeatStatus{}}
		for id := range req.Jobs {
			resp.Jobs[id] = api.HeartbeatStatus{Status: "ok"}
		}
		out = resp
	case "ack/batch":
		time.Sleep(10 * time.Millisecond) // other acks gather meanwhile
	case "ack":
		time.Sleep(10 * time.Millisecond)
	}
	text, err := json.Marshal(out)
	return string(text), err
}

// of returns the requests to a route.
func (c *clockwork) of(route string) (all []said) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.heard {
		if s.route == route {
			all = append(all, s)
		}
	}
	return all
}

// runs starts a worker; stop ends it and waits.
func (c *clockwork) runs(t *testing.T, w *Worker, h Handler) (stop func()) {
	t.Helper()
	var err error
	if w.Client, err = New("http://corvo", "key", WithHTTPClient(&http.Client{Transport: c})); err != nil {
		t.Fatal(err)
	}
	if w.Logger == nil {
		w.Logger = slog.New(slog.DiscardHandler)
	}
	w.Handle("q", h)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
	}
}

// untilDone is a handler that waits until its context ends.
func untilDone(ctx context.Context, _ *Job) error { <-ctx.Done(); return ctx.Err() }

// The worker sends one heartbeat every 15 seconds for all jobs. At most one fetch waits at a time, for as
// many jobs as there are free slots.
func TestWorkerRhythm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork("job_1", "job_2", "job_3")
		stop := c.runs(t, &Worker{DrainTimeout: -1}, untilDone)
		time.Sleep(31 * time.Second)
		stop()
		beats := c.of("heartbeat")
		if last := len(beats) - 1; last == 2 && strings.Contains(beats[last].body, `"draining":true`) {
			beats = beats[:last] // the last one announces the drain
		} else {
			t.Errorf("nobody is told of the drain: %+v", beats)
		}
		if len(beats) != 2 {
			t.Fatalf("heartbeats: %+v, want two", beats)
		}
		if beats[0].at != 15*time.Second || beats[1].at != 30*time.Second {
			t.Errorf("heartbeats at %s and %s, want 15s and 30s", beats[0].at, beats[1].at)
		}
		if strings.Count(beats[0].body, "token of job_") != 3 {
			t.Errorf("the first heartbeat is %s, want three jobs", beats[0].body)
		}
		fetches := c.of("fetch/batch")
		if len(fetches) != 3 {
			t.Fatalf("fetches: %+v, want three", fetches)
		}
		for i, part := range []string{`"count":10`, `"count":7`} {
			if !strings.Contains(fetches[i].body, part) {
				t.Errorf("fetch %d is %s, want %s", i, fetches[i].body, part)
			}
		}
		if !strings.Contains(fetches[1].body, `"timeout":30`) {
			t.Errorf("the second fetch is %s, want a timeout of 30", fetches[1].body)
		}
		fails := c.of("fail")
		if len(fails) != 3 || !strings.Contains(fails[0].body, `"error":"worker_shutdown"`) {
			t.Errorf("fails: %+v", fails)
		}
	})
}

// A single ack is sent at once; acks that arrive while it is under way are sent together.
func TestWorkerGathersAcks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork("job_1", "job_2", "job_3", "job_4")
		stop := c.runs(t, &Worker{}, func(_ context.Context, j *Job) error {
			if j.JobID != "job_1" {
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
		time.Sleep(time.Second)
		stop()
		one, many := c.of("ack"), c.of("ack/batch")
		if len(one) != 1 || len(many) != 1 {
			t.Fatalf("acks %+v, batch requests %+v; want one of each", one, many)
		}
		if one[0].at != time.Millisecond || many[0].at != 11*time.Millisecond {
			t.Errorf("an ack at %s and a batch request at %s, want 1ms and 11ms", one[0].at, many[0].at)
		}
		if strings.Count(many[0].body, "job_id") != 3 {
			t.Errorf("the batch request is %s, want three acks", many[0].body)
		}
	})
}

// An ack is retried until it is answered, after the wait that the server asks for, but not beyond the
// lease.
func TestWorkerInsists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork("job_1")
		c.answer = func(s said) (int, string) {
			if s.route != "ack" {
				return 0, ""
			}
			return http.StatusTooManyRequests, `{"error":"later","code":"OVERLOADED","details":{"retry_after_ms":20000}}`
		}
		stop := c.runs(t, &Worker{}, func(context.Context, *Job) error { return nil })
		time.Sleep(3 * time.Minute)
		stop()
		var at []time.Duration
		for _, s := range c.of("ack") {
			at = append(at, s.at-time.Millisecond)
		}
		if !slices.Equal(at, []time.Duration{0, 20 * time.Second, 40 * time.Second, time.Minute}) {
			t.Errorf("acks after %v", at)
		}
	})
}

// A worker that cannot reach its server loses its jobs when their leases end, and fetches again when it
// can.
func TestWorkerCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork("job_1")
		c.answer = func(s said) (int, string) {
			if s.at > 16*time.Second && s.at < 2*time.Minute {
				return -1, ""
			}
			return 0, ""
		}
		var mu sync.Mutex
		ended := map[string]time.Duration{}
		stop := c.runs(t, &Worker{DrainTimeout: -1}, func(ctx context.Context, j *Job) error {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			if ended[j.JobID] = time.Since(c.began); j.JobID == "job_1" && !errors.Is(context.Cause(ctx), ErrLeaseLost) {
				t.Errorf("the context ended with %v", context.Cause(ctx))
			}
			return nil
		})
		time.Sleep(time.Minute + 30*time.Second)
		c.add("job_2")
		time.Sleep(time.Minute)
		stop()
		// The heartbeat after 15 seconds was the last answered one.
		if ended["job_1"] != 75*time.Second || ended["job_2"] < 2*time.Minute {
			t.Errorf("%v", ended)
		}
	})
}

// A drain is limited in time. A handler that never returns blocks neither the worker nor the return of
// its job.
func TestWorkerDrainHasAnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork("job_1", "job_2")
		release := make(chan struct{})
		stop := c.runs(t, &Worker{}, func(ctx context.Context, j *Job) error {
			if j.JobID == "job_2" {
				j.SetCheckpoint("far")
				<-release
				return nil
			}
			return untilDone(ctx, j)
		})
		time.Sleep(time.Second)
		stop()
		took := time.Since(c.began) - time.Second
		close(release)
		if took != DefaultDrainTimeout+returnGrace {
			t.Errorf("the drain took %v", took)
		}
		if fails := c.of("fail"); len(fails) != 2 || strings.Count(fails[1].body, api.WorkerShutdown) != 1 {
			t.Errorf("%+v", fails)
		}
		if beats := c.of("heartbeat"); !strings.Contains(beats[len(beats)-1].body, `"checkpoint":"far"`) {
			t.Errorf("%+v", beats)
		}
		synctest.Wait()
		if acks := c.of("ack"); len(acks) != 0 {
			t.Errorf("a job that was given back is acked: %+v", acks)
		}
	})
}

func TestWorkerSetup(t *testing.T) {
	nothing := func(context.Context, *Job) error { return nil }
	for name, c := range map[string]struct {
		env  map[string]string
		set  func(*Worker)
		want string // of the error
	}{
		"no endpoint":      {map[string]string{"CORVO_ENDPOINT": "", "CORVO_URL": ""}, nil, "CORVO_ENDPOINT"},
		"a bad endpoint":   {map[string]string{"CORVO_ENDPOINT": "here"}, nil, "want a URL"},
		"bad concurrency":  {map[string]string{"CORVO_CONCURRENCY": "many"}, nil, "CORVO_CONCURRENCY"},
		"no queues":        {nil, func(*Worker) {}, "no queues"},
		"no handler":       {map[string]string{"CORVO_QUEUES": "a, b"}, func(w *Worker) { w.Handle("a", nothing) }, `"b" has no handler`},
		"a lease too fine": {nil, func(w *Worker) { w.Handle("a", nothing); w.Lease = 1500 * time.Millisecond }, "whole seconds"},
		"no such address":  {map[string]string{"CORVO_HEALTH_ADDR": "nowhere"}, func(w *Worker) { w.Handle("a", nothing) }, "HealthAddr"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"CORVO_ENDPOINT", "CORVO_API_KEY", "CORVO_QUEUES", "CORVO_CONCURRENCY", "CORVO_HEALTH_ADDR"} {
				t.Setenv(name, "")
			}
			t.Setenv("CORVO_URL", "http://127.0.0.1:1")
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			w, err := WorkerFromEnv()
			if err == nil && c.set != nil {
				c.set(w)
				err = w.Run(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want something of %q", err, c.want)
			}
		})
	}
	t.Setenv("CORVO_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("CORVO_QUEUES", "a,b")
	t.Setenv("CORVO_CONCURRENCY", "3")
	if w, err := WorkerFromEnv(); err != nil || !slices.Equal(w.Queues, []string{"a", "b"}) || w.Concurrency != 3 {
		t.Errorf("%+v, %v", w, err)
	}
}

// HealthAddr serves the health of a worker while it runs.
func TestWorkerHealth(t *testing.T) {
	t.Parallel()
	c := newClockwork("job_1")
	var log bytes.Buffer // written before the handler begins
	w := &Worker{HealthAddr: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&log, nil))}
	began, release := make(chan struct{}), make(chan struct{})
	stop := c.runs(t, w, func(context.Context, *Job) error { close(began); <-release; return nil })
	<-began
	_, address, _ := strings.Cut(log.String(), "address=")
	resp, err := http.Get("http://" + strings.TrimSpace(address) + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != `{"status":"ok","running":1}`+"\n" {
		t.Errorf("%s, %v", body, err)
	}
	close(release)
	stop()
	after := httptest.NewRecorder()
	w.Health().ServeHTTP(after, httptest.NewRequest("GET", "/healthz", nil))
	if after.Code != http.StatusServiceUnavailable {
		t.Errorf("after its end %d %s", after.Code, after.Body)
	}
}
