package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
)

// working is a worker that runs until the test ends or stops it.
type working struct {
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

// work starts a worker of the node with one handler.
func (n *node) work(w *client.Worker, queue string, h client.Handler) *working {
	n.t.Helper()
	if w.Client == nil {
		w.Client = n.client(n.admin)
	}
	w.Handle(queue, h)
	ctx, cancel := context.WithCancel(context.Background())
	r := &working{t: n.t.(*testing.T), stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- w.Run(ctx) }()
	n.t.Cleanup(func() { cancel(); r.end() })
	return r
}

// end waits until the worker has stopped.
func (r *working) end() {
	r.t.Helper()
	if err := <-r.done; err != nil {
		r.t.Errorf("the worker ended with %v", err)
	}
	r.done <- nil // for a second call
}

func TestWorkersDoEveryJobOnce(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]struct{ stream, http2 bool }{
		"polls": {}, "a stream": {true, true}, "a stream that does not come through": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const workers, jobs = 20, 600
			n := startNode(t, nil)
			var mu sync.Mutex
			done := map[string]int{}
			all := make(chan struct{})
			var streams atomic.Int64 // that are open, at most
			handler := func(_ context.Context, j *client.Job) error {
				streams.Store(max(streams.Load(), n.server.OpenStreams()))
				mu.Lock()
				defer mu.Unlock()
				j.SetResult(len(done))
				if done[j.JobID]++; len(done) == jobs {
					close(all)
				}
				return nil
			}
			batch := make([]api.EnqueueRequest, jobs/2)
			for i := range batch {
				batch[i].Queue = "q"
			}
			enqueue := func() {
				if _, err := n.client(n.admin).EnqueueBatch(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
			}
			enqueue()
			var running []*working
			for range workers {
				w := &client.Worker{Stream: over.stream}
				if over.http2 {
					w.Client, _ = n.streams()
				}
				running = append(running, n.work(w, "q", handler))
			}
			enqueue()
			<-all
			for _, w := range running {
				w.stop()
			}
			for _, w := range running {
				w.end()
			}
			for id, times := range done {
				if times != 1 {
					t.Errorf("job %s was done %d times", id, times)
				}
			}
			if came := streams.Load() > 0; came != over.http2 {
				t.Errorf("a stream came through: %v", came)
			}
			if q := n.queue("q"); q.Completed != jobs || q.Active != 0 {
				t.Errorf("%d completed, %d active", q.Completed, q.Active)
			}
		})
	}
}

// A handler's report about its job reaches the server unchanged.
func TestWorkerTellsAll(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	made, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q", Payload: json.RawMessage(`{"n":2}`), Checkpoint: json.RawMessage(`{"at":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	cost := money.Reported(money.Dollar / 4)
	n.work(&client.Worker{ID: "w1"}, "q", func(ctx context.Context, j *client.Job) error {
		var payload struct{ N int }
		var at struct{ At int }
		found, err := j.Resume(&at)
		if err := errors.Join(err, j.Decode(&payload)); err != nil {
			return err
		}
		equal(t, "found a checkpoint", found, true)
		equal(t, "the checkpoint", at.At, 1)
		equal(t, "the payload", payload.N, 2)
		j.AddUsage(api.ReportedUsage{InputTokens: 1, Model: "m1", Provider: "p", CostUSD: &cost})
		j.AddUsage(api.ReportedUsage{InputTokens: 2, Model: "m1", Provider: "p", CostUSD: &cost})
		j.AddUsage(api.ReportedUsage{OutputTokens: 4, Model: "m2", Provider: "p", CostUSD: &cost})
		j.SetProgress(map[string]int{"current": 1})
		j.SetCheckpoint(map[string]int{"at": 2})
		if err := j.Save(ctx); err != nil {
			return err
		}
		saved, err := c.Job(ctx, j.JobID, client.Read{})
		if err != nil {
			return err
		}
		equal(t, "the saved checkpoint", string(saved.Checkpoint), `{"at":2}`)
		equal(t, "the saved progress", string(saved.Progress), `{"current":1}`)
		equal(t, "the saved output tokens", saved.Usage.OutputTokens, 4)
		j.AddUsage(api.ReportedUsage{OutputTokens: 8, Model: "m2", Provider: "p", CostUSD: &cost})
		j.AddUsage(api.ReportedUsage{OutputTokens: 16, Model: "m3", Provider: "p", CostUSD: &cost})
		j.SetCheckpoint(map[string]int{"at": 3})
		j.SetResult([]int{7})
		return nil
	})
	j := n.settled(made.JobID, "completed")
	if string(j.Result) != "[7]" || string(j.Checkpoint) != `{"at":3}` || *j.WorkerID != "w1" {
		t.Errorf("result %s, checkpoint %s of %v", j.Result, j.Checkpoint, *j.WorkerID)
	}
	equal(t, "usage", j.Usage, &api.Usage{InputTokens: 3, OutputTokens: 28, Model: "m3", Provider: "p", CostUSD: money.Nano(5 * cost)})
}

// An attempt fails with the text of its error or panic, and the next one continues from the checkpoint.
func TestWorkerFails(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c := n.client(n.admin)
	made, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "q", RetryBackoff: "none", MaxRetries: ptr(4)})
	if err != nil {
		t.Fatal(err)
	}
	n.work(&client.Worker{}, "q", func(_ context.Context, j *client.Job) error {
		var at int
		if _, err := j.Resume(&at); err != nil || at != j.Attempt-1 {
			return fmt.Errorf("attempt %d goes on from %d: %w", j.Attempt, at, err)
		}
		j.SetCheckpoint(j.Attempt)
		switch j.Attempt {
		case 1:
			return errors.New("no luck")
		case 2:
			panic("out of order")
		case 3:
			j.SetResult(func() {})
		}
		return nil
	})
	j := n.settled(made.JobID, "completed")
	if len(j.Errors) != 3 {
		t.Fatalf("%+v", j.Errors)
	}
	equal(t, "the first error", j.Errors[0].Error, "no luck")
	equal(t, "the second error", j.Errors[1].Error, "panic: out of order")
	if trace := *j.Errors[1].Backtrace; !strings.Contains(trace, "TestWorkerFails") {
		t.Errorf("the backtrace of the panic is %s", trace)
	}
	if text := j.Errors[2].Error; !strings.Contains(text, "result of job") {
		t.Errorf("the third error is %q", text)
	}
}

// If the server refuses a handler's report, the attempt fails with the reason, and the worker's other jobs
// are unaffected.
func TestWorkerIsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	var ids []string
	for range 3 {
		ids = append(ids, n.enqueued(`{"queue":"q"}`))
	}
	n.work(&client.Worker{}, "q", func(ctx context.Context, j *client.Job) error {
		switch j.JobID {
		case ids[0]:
			if j.Attempt == 1 {
				j.SetResult(strings.Repeat("x", job.MaxResult))
			}
		case ids[1]:
			if j.Attempt == 1 {
				j.SetProgress(strings.Repeat("x", job.MaxProgress))
				if err := j.Save(ctx); !strings.Contains(fmt.Sprint(err), "progress") {
					return fmt.Errorf("a progress that is too large was saved: %w", err)
				}
			}
		}
		return nil
	})
	n.settled(ids[2], "completed")
	for i, word := range []string{"result", "progress"} {
		var failures []api.JobError
		eventually(t, "the job of a report that is too large has failed", func() bool {
			j, err := n.client(n.admin).Job(t.Context(), ids[i], client.Read{})
			if err != nil {
				t.Fatal(err)
			}
			failures = j.Errors
			return len(failures) > 0
		})
		if !strings.Contains(failures[0].Error, word) {
			t.Errorf("the error is %q, want the %s in it", failures[0].Error, word)
		}
	}
}

// A cancelled job's handler is notified by the next heartbeat.
func TestWorkerHearsOfCancels(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c := n.client(n.admin)
	id := n.enqueued(`{"queue":"q"}`)
	began := make(chan struct{})
	n.work(&client.Worker{Lease: 3 * time.Second}, "q", func(ctx context.Context, _ *client.Job) error {
		close(began)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), client.ErrCancelled) {
			t.Errorf("the context ended with %v", context.Cause(ctx))
		}
		return ctx.Err()
	})
	<-began
	if status, err := c.Cancel(t.Context(), id); err != nil || status != "cancelling" {
		t.Fatal(status, err)
	}
	n.settled(id, "cancelled")
}

// A worker that stops gives back its unfinished jobs: no attempt is counted, and another worker continues
// from the checkpoint, whether the handler watches its context or not.
func TestWorkerDrains(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	done, listens, early := n.enqueued(`{"queue":"done"}`), n.enqueued(`{"queue":"listens"}`), n.enqueued(`{"queue":"early"}`)
	var began sync.WaitGroup
	began.Add(3)
	first := &client.Worker{DrainTimeout: time.Second}
	first.Handle("listens", func(ctx context.Context, j *client.Job) error {
		began.Done()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), client.ErrShutdown) {
			t.Errorf("the context ended with %v", context.Cause(ctx))
		}
		j.SetCheckpoint("far")
		return errors.New("whatever the database says of its context")
	})
	first.Handle("early", func(_ context.Context, j *client.Job) error {
		began.Done()
		<-j.Draining()
		j.SetCheckpoint("far")
		return fmt.Errorf("later: %w", client.ErrShutdown)
	})
	w := n.work(first, "done", func(ctx context.Context, j *client.Job) error {
		began.Done()
		<-j.Draining()
		return ctx.Err()
	})
	began.Wait()
	w.stop()
	w.end()
	n.settled(done, "completed")
	for _, id := range []string{listens, early} {
		if j := n.settled(id, "pending"); j.Attempt != 0 {
			t.Errorf("attempt %d is counted", j.Attempt)
		}
	}
	n.work(&client.Worker{Queues: []string{"listens", "early"}}, "*", func(_ context.Context, j *client.Job) error {
		if string(j.Checkpoint) != `"far"` || j.Attempt != 1 {
			return fmt.Errorf("attempt %d goes on from %s", j.Attempt, j.Checkpoint)
		}
		return nil
	})
	for _, id := range []string{listens, early} {
		n.settled(id, "completed")
	}
}

// While a worker drains, the list of workers shows it, with its concurrency.
func TestADrainingWorkerIsShown(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	id := n.enqueued(`{"queue":"q"}`)
	began := make(chan struct{})
	// A fetch that was sent before the drain may reach the server after the first heartbeat of the drain. The next
	// heartbeat corrects it, so the drain must last for several.
	w := n.work(&client.Worker{ID: "w", Hostname: "h", Concurrency: 3, DrainTimeout: time.Hour}, "q", func(ctx context.Context, j *client.Job) error {
		close(began)
		<-j.Draining()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil && n.workers(n.admin) != "w@h [q] 1/3 draining" {
			<-tick.C
		}
		return ctx.Err()
	})
	<-began
	w.stop()
	w.end()
	n.settled(id, "completed")
}

// The worker runs an agent's iterations, with tools and a person's approval.
func TestWorkerRunsAgents(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c := n.client(n.admin)
	made, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "agent", Agent: &api.Agent{MaxIterations: 5}})
	if err != nil {
		t.Fatal(err)
	}
	w := &client.Worker{}
	w.Handle("tool", func(_ context.Context, j *client.Job) error { j.SetResult("sunny"); return nil })
	n.work(w, "agent", func(_ context.Context, j *client.Job) error {
		switch j.Agent.Iteration {
		case 1:
			j.SetTrace([]string{"thought"})
			j.Continue(api.ToolCall{Name: "weather", EnqueueRequest: api.EnqueueRequest{Queue: "tool"}})
		case 2:
			if len(j.ToolResults) != 1 || string(j.ToolResults[0].Result) != `"sunny"` {
				return fmt.Errorf("tools: %+v", j.ToolResults)
			}
			j.Hold("shall I?")
		default:
			j.SetResult("went out")
		}
		return nil
	})
	if j := n.settled(made.JobID, "held"); j.HoldReason == nil || *j.HoldReason != "shall I?" {
		t.Errorf("held because of %v", j.HoldReason)
	}
	if err := c.Approve(t.Context(), made.JobID); err != nil {
		t.Fatal(err)
	}
	if j := n.settled(made.JobID, "completed"); string(j.Result) != `"went out"` {
		t.Errorf("%s", j.Result)
	}
	its, err := c.Iterations(t.Context(), made.JobID, client.IterationPage{}, client.Read{})
	if err != nil || len(its.Iterations) != 3 || string(its.Iterations[0].Trace) != `["thought"]` {
		t.Errorf("%+v, %v", its, err)
	}
}

// losesAnswers sends requests and loses every other answer from some routes.
type losesAnswers struct {
	routes []string
	count  atomic.Int64
}

func (l *losesAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	for _, route := range l.routes {
		if strings.Contains(r.URL.Path, route) && l.count.Add(1)%2 == 1 && err == nil {
			resp.Body.Close()
			return nil, errors.New("the answer is lost")
		}
	}
	return resp, err
}

// Lost answers change nothing: each report is repeated and takes effect once.
func TestWorkerRepeats(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	loses := &losesAnswers{routes: []string{"/ack", "/fail", "/heartbeat"}}
	c, err := client.New(n.url, n.admin, client.WithHTTPClient(&http.Client{Transport: loses}))
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "q", RetryBackoff: "none"})
	if err != nil {
		t.Fatal(err)
	}
	n.work(&client.Worker{Client: c}, "q", func(ctx context.Context, j *client.Job) error {
		j.AddUsage(api.ReportedUsage{InputTokens: 1, Model: "m", Provider: "p"})
		if err := j.Save(ctx); err != nil {
			return err
		}
		j.AddUsage(api.ReportedUsage{InputTokens: 10, Model: "m", Provider: "p"})
		if j.Attempt == 1 {
			return errors.New("once more")
		}
		return nil
	})
	j := n.settled(made.JobID, "completed")
	equal(t, "errors", len(j.Errors), 1)
	equal(t, "attempt", j.Attempt, 2)
	equal(t, "input tokens", j.Usage.InputTokens, 22)
	// The job is shown as completed before the worker has the answer to its last report.
	eventually(t, "the worker has sent some reports twice", func() bool { return loses.count.Load() >= 5 })
}

// A worker without a valid key ends with an error.
func TestWorkerWithoutAKey(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	w := &client.Worker{Client: n.client("cv_wrong")}
	w.Handle("q", func(context.Context, *client.Job) error { return nil })
	if err := w.Run(t.Context()); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("%v", err)
	}
}
