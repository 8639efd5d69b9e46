package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// fetchBy fetches as a caller that writes to w and leaves when ctx ends.
func (n *node) fetchBy(ctx context.Context, w http.ResponseWriter, path, body string) {
	r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+n.admin)
	n.server.ServeHTTP(w, r)
}

// TestClientLeaves checks that a caller that leaves during its fetch either gets the job or leaves the job
// unchanged. In every second round the caller leaves when the lease appears in the store, before the fetch
// knows of the lease.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c := n.client(n.admin)
	delivered := 0
	for round := range 60 {
		if err := c.PauseQueue(t.Context(), "q"); err != nil {
			t.Fatal(err)
		}
		made, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		done := make(chan struct{}, 1)
		go func() {
			n.fetchBy(ctx, w, "/api/v1/fetch", `{"queues":["q"],"timeout":60}`)
			done <- struct{}{}
		}()
		n.parked(1)
		var leaver sync.WaitGroup
		leaver.Go(func() {
			defer leave()
			for round%2 == 0 && len(done) == 0 && !n.leased(made.JobID) {
				runtime.Gosched()
			}
		})
		if err := c.ResumeQueue(t.Context(), "q"); err != nil {
			t.Fatal(err)
		}
		leaver.Wait()
		<-done
		if w.Code != http.StatusOK {
			n.untouched(made.JobID)
			w = httptest.NewRecorder()
			n.fetchBy(t.Context(), w, "/api/v1/fetch", `{"queues":["q"],"timeout":0}`)
		} else {
			delivered++
		}
		var f api.FetchedJob
		if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil || f.JobID != made.JobID || f.Attempt != 1 {
			t.Fatalf("the worker got %d %s", w.Code, w.Body)
		}
		if err := c.Ack(t.Context(), f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 60 were delivered", delivered)
}

// leased reports whether a job is active in the store.
func (n *node) leased(id string) bool {
	parsed, err := job.ParseID(id)
	if err != nil {
		n.t.Error(err)
		return true
	}
	j, err := n.cell.State().Job(parsed)
	if err != nil || j == nil {
		n.t.Errorf("%s: %v, %v", id, j, err)
		return true
	}
	return j.State == job.Active
}

// broken is a connection that accepts a number of bytes and then fails.
type broken struct {
	header http.Header
	room   int
	before func() // runs before the first write, if it is set
}

func (b *broken) Header() http.Header { return b.header }
func (b *broken) WriteHeader(int)     {}

func (b *broken) Write(p []byte) (int, error) {
	if b.before != nil {
		b.before()
		b.before = nil
	}
	if b.room -= len(p); b.room < 0 {
		return 0, errors.New("connection reset")
	}
	return len(p), nil
}

func (b *broken) FlushError() error {
	if b.room < 1<<20 {
		return errors.New("connection reset")
	}
	return nil
}

// Undelivered jobs are given back, including the delivered part of a batch, because the worker cannot read a
// partial answer.
func TestUndelivered(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	payload := json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
	jobs := make([]api.EnqueueRequest, 4)
	for i := range jobs {
		jobs[i] = api.EnqueueRequest{Queue: "q", Payload: payload}
	}
	made, err := c.EnqueueBatch(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		path, body string
		room       int
	}{
		{"/api/v1/fetch", `{"queues":["q"]}`, 0},                       // fails at the write
		{"/api/v1/fetch", `{"queues":["q"]}`, 512 << 10},               // at the flush
		{"/api/v1/fetch/batch", `{"queues":["q"],"count":4}`, 0},       // at the first chunk
		{"/api/v1/fetch/batch", `{"queues":["q"],"count":4}`, 1 << 19}, // in the middle
	} {
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("%s: recovered %v: a broken answer must cut the connection", try.path, p)
				}
			}()
			n.fetchBy(ctx, &broken{header: http.Header{}, room: try.room}, try.path, try.body)
		}()
		for _, id := range made.JobIDs {
			n.untouched(id)
		}
	}
	got, err := c.FetchBatch(ctx, api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"q"}}, Count: ptr(4)})
	if err != nil || len(got) != 4 {
		t.Fatalf("fetched %d, %v", len(got), err)
	}
	for i, f := range got {
		if f.JobID != made.JobIDs[i] || f.Attempt != 1 || string(f.Payload) != string(payload) {
			t.Errorf("job %d: %s, attempt %d, payload of %d bytes", i, f.JobID, f.Attempt, len(f.Payload))
		}
	}
}

// A payload is returned byte for byte, and polls that race for one job cost no more entries than there are
// jobs.
func TestPayloadIsKept(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for _, payload := range []string{
		`{ "a" : 1.0e+3,  "html":"<&>", "big":123456789012345678901234567890, "a":2 }`,
		`"\u003c\u00e9 é \ud83d\ude00"`, `[ ]`, `0`, `false`, `{}`,
	} {
		if a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","payload":`+payload+`}`); a.status != 201 {
			t.Fatalf("enqueue %s: %d %s", payload, a.status, a.body)
		}
		a := n.send("POST", "/api/v1/fetch", n.admin, `{"queues":["q"]}`)
		if a.status != 200 || !strings.Contains(string(a.body), `"payload":`+payload+`,"attempt"`) {
			t.Errorf("%s came back as %s", payload, a.body)
		}
	}
	for _, nothing := range []string{``, `,"payload":null`} {
		if a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q"`+nothing+`}`); a.status != 201 {
			t.Fatalf("enqueue: %d %s", a.status, a.body)
		}
		if a := n.send("POST", "/api/v1/fetch", n.admin, `{"queues":["q"]}`); !strings.Contains(string(a.body), `"payload":{},`) {
			t.Errorf("no payload came back as %s", a.body)
		}
	}
}

// With many polls and few jobs, only about as many fetches are logged as there are jobs, plus a few that lose
// a race.
func TestPollsDoNotStampede(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	const polls, jobs = 64, 8
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan *httptest.ResponseRecorder, polls)
	for range polls {
		go func() {
			w := httptest.NewRecorder()
			n.fetchBy(ctx, w, "/api/v1/fetch", `{"queues":["q"],"timeout":60}`)
			done <- w
		}()
	}
	n.parked(polls)
	c := n.client(n.admin)
	before := n.cell.Applied()
	for range jobs {
		if _, err := c.Enqueue(context.Background(), api.EnqueueRequest{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for range jobs {
		var f api.FetchedJob
		w := <-done
		if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil || seen[f.JobID] {
			t.Fatalf("a poll got %d %s", w.Code, w.Body)
		}
		seen[f.JobID] = true
	}
	if entries := n.cell.Applied() - before; entries > 3*jobs {
		t.Errorf("%d entries for %d enqueues and as many fetches", entries, jobs)
	}
	leave()
	for range polls - jobs {
		if w := <-done; w.Body.Len() != 0 {
			t.Errorf("a poll that left got %d %s", w.Code, w.Body)
		}
	}
}
