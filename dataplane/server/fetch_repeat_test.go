package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// fetchKeyed fetches with an Idempotency-Key.
func (n *node) fetchKeyed(path, key, body string) answer {
	n.t.Helper()
	return n.send("POST", path, n.admin, body, "Idempotency-Key: "+key)
}

// put enqueues jobs into queue q.
func (n *node) put(count int) []string {
	n.t.Helper()
	made, err := n.client(n.admin).EnqueueBatch(context.Background(), slices.Repeat([]api.EnqueueRequest{{Queue: "q"}}, count))
	if err != nil {
		n.t.Fatal(err)
	}
	return made.JobIDs
}

// fetched returns the jobs of an answer to a single or batch fetch.
func (n *node) fetched(a answer) []api.FetchedJob {
	n.t.Helper()
	var out struct {
		api.FetchedJob
		Jobs []api.FetchedJob `json:"jobs"`
	}
	if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusOK {
		n.t.Fatalf("a fetch answered %d %s", a.status, a.body)
	}
	if out.Jobs == nil {
		return []api.FetchedJob{out.FetchedJob}
	}
	return out.Jobs
}

// refused fails the test unless a fetch with a key is refused at once and changes nothing.
func (n *node) refused(path, key, body string, code api.Code, has string) {
	n.t.Helper()
	before := n.dump()
	a := n.fetchKeyed(path, key, body)
	if p := a.problem(n.t); a.status != http.StatusConflict || p.Code != code || !strings.Contains(p.Error, has) {
		n.t.Errorf("%s with %s: %d %s, want %s", path, body, a.status, a.body, code)
	}
	n.same(before)
}

const (
	onePath, batchPath = "/api/v1/fetch", "/api/v1/fetch/batch"
	// If these fetches waited, they would wait for the test's whole time.
	waiting     = `{"queues":["q"],"timeout":60}`
	waitingTwo  = `{"queues":["q"],"timeout":60,"count":2}`
	notWaiting  = `{"queues":["q"],"timeout":0}`
	waitsAWhile = `{"queues":["q"],"timeout":3}`
)

// When the answer of a fetch is lost, its repeat gets the same jobs with the same tokens, and no others.
func TestFetchRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, body string }{{onePath, waiting}, {batchPath, waitingTwo}} {
		n := startNode(t, nil)
		ids := n.put(4)
		first := n.fetchKeyed(c.path, "k", c.body)
		before := n.dump()
		for range 2 {
			again := n.fetchKeyed(c.path, "k", c.body)
			if again.status != http.StatusOK || string(again.body) != string(first.body) || again.header.Get("Corvo-Index") == "" {
				t.Errorf("%s: first\n%s\nthen %d\n%s", c.path, first.body, again.status, again.body)
			}
		}
		n.same(before)
		got := n.fetched(first)
		if got[0].JobID != ids[0] || got[0].Attempt != 1 {
			t.Errorf("fetched %+v", got[0])
		}
		// The repeat's token is valid.
		if err := n.client(n.admin).Ack(t.Context(), ids[0], api.AckRequest{LeaseToken: got[0].LeaseToken}); err != nil {
			t.Error(err)
		}
		if other := n.fetched(n.fetchKeyed(c.path, "another", c.body)); other[0].JobID != ids[len(got)] {
			t.Errorf("%s: another key got %s", c.path, other[0].JobID)
		}
	}
}

// TestFetchKeyMismatch checks that a fetch is refused before it waits if it has the key of another request or
// of a fetch with another body.
func TestFetchKeyMismatch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.put(1)
	n.fetched(n.fetchKeyed(onePath, "k", waiting))
	n.refused(onePath, "k", notWaiting, api.IdempotencyMismatch, "new key")
	n.refused(onePath, "k", strings.Replace(waiting, `"q"`, `"p"`, 1), api.IdempotencyMismatch, "new key")
	n.refused(batchPath, "k", waiting, api.IdempotencyMismatch, "new key")
	if a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q"}`, "Idempotency-Key: e"); a.status != http.StatusCreated {
		t.Fatalf("enqueue: %d %s", a.status, a.body)
	}
	n.refused(onePath, "e", waiting, api.IdempotencyMismatch, "new key")
}

// An empty fetch is not remembered, so a repeat with its key may get jobs.
func TestEmptyFetchIsNotRemembered(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	if a := n.fetchKeyed(onePath, "k", notWaiting); a.status != http.StatusNoContent {
		t.Fatalf("%d %s", a.status, a.body)
	}
	ids := n.put(2)
	if got := n.fetched(n.fetchKeyed(onePath, "k", notWaiting)); got[0].JobID != ids[0] {
		t.Errorf("got %s", got[0].JobID)
	}
	if got := n.fetched(n.fetchKeyed(onePath, "k", notWaiting)); got[0].JobID != ids[0] {
		t.Errorf("then %s", got[0].JobID)
	}
}

// TestFetchRepeatedTooLate checks that the repeat of a fetch gets the jobs whose leases still hold. If no
// lease holds any more, the error asks for another key.
func TestFetchRepeatedTooLate(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	n.put(2)
	got := n.fetched(n.fetchKeyed(batchPath, "k", waitingTwo))
	if err := c.Ack(ctx, got[0].JobID, api.AckRequest{LeaseToken: got[0].LeaseToken}); err != nil {
		t.Fatal(err)
	}
	left := n.fetched(n.fetchKeyed(batchPath, "k", waitingTwo))
	if len(left) != 1 || left[0].JobID != got[1].JobID || left[0].LeaseToken != got[1].LeaseToken {
		t.Errorf("left is %+v", left)
	}
	if _, err := c.Fail(ctx, got[1].JobID, api.FailRequest{Error: "x", LeaseToken: got[1].LeaseToken}); err != nil {
		t.Fatal(err)
	}
	n.refused(batchPath, "k", waitingTwo, api.LeaseLost, "use a new key")
}

// A repeat gets neither an expired lease nor a later lease of the job.
func TestFetchRepeatedAfterLeaseEnd(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	const short = `{"queues":["q"],"timeout":60,"lease_duration":1}`
	if a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","retry_backoff":"none"}`); a.status != http.StatusCreated {
		t.Fatalf("enqueue: %d %s", a.status, a.body)
	}
	first := n.fetched(n.fetchKeyed(onePath, "k", short))[0]
	eventually(t, "the lease is over", func() bool { return !n.leased(first.JobID) })
	n.refused(onePath, "k", short, api.LeaseLost, "use a new key")
	second := n.fetched(n.fetchKeyed(onePath, "k2", waiting))[0]
	if second.JobID != first.JobID || second.Attempt != 2 || second.LeaseToken == first.LeaseToken {
		t.Errorf("first %+v, then %+v", first, second)
	}
	n.refused(onePath, "k", short, api.LeaseLost, "use a new key")
}

// TestUndeliveredKey checks that a fetch with a key keeps its leases if its answer breaks off, because a
// repeat may have been answered already and the worker of the repeat has the same tokens. A later repeat gets
// the same leases.
func TestUndeliveredKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, body string }{{onePath, waiting}, {batchPath, waitingTwo}} {
		n := startNode(t, nil)
		ids := n.put(2)
		var early []api.FetchedJob // of a repeat that is answered before the first try sees its dead connection
		dead := &broken{header: http.Header{}, before: func() { early = n.fetched(n.fetchKeyed(c.path, "k", c.body)) }}
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("recovered %v: a broken answer must cut the connection", p)
				}
			}()
			r := httptest.NewRequest("POST", c.path, strings.NewReader(c.body))
			r.Header.Set("Authorization", "Bearer "+n.admin)
			r.Header.Set("Idempotency-Key", "k")
			n.server.ServeHTTP(dead, r)
		}()
		late := n.fetched(n.fetchKeyed(c.path, "k", c.body))
		if len(early) == 0 || len(late) != len(early) || late[0].LeaseToken != early[0].LeaseToken || late[0].Attempt != 1 {
			t.Fatalf("%s: one repeat got %+v, a later one %+v", c.path, early, late)
		}
		for i, f := range early {
			if f.JobID != ids[i] {
				t.Errorf("%s: the repeat got job %s, want %s", c.path, f.JobID, ids[i])
			}
			if err := n.client(n.admin).Ack(t.Context(), f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
				t.Errorf("%s: ack by the worker of the repeat: %v", c.path, err)
			}
		}
	}
}

// TestFetchTwiceAtOnce lets two fetches with one key wait at the same time. One leases a job. The other gets
// the same job when it is woken too, or else at its fetch deadline.
func TestFetchTwiceAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		jobs int
	}{{waiting, 2}, {waitsAWhile, 1}} {
		n := startNode(t, nil)
		answers := make(chan answer, 2)
		for range 2 {
			go func() { answers <- n.fetchKeyed(onePath, "k", c.body) }()
		}
		n.parked(2)
		ids := n.put(c.jobs)
		first, second := <-answers, <-answers
		if got := n.fetched(first); string(first.body) != string(second.body) || got[0].JobID != ids[0] {
			t.Errorf("%d jobs: answered\n%s\nand\n%s", c.jobs, first.body, second.body)
		}
		for _, id := range ids[1:] {
			n.untouched(id)
		}
	}
}

// The client repeats a fetch with its caller's key and gets the same job.
func TestClientRepeatsFetch(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.put(2)
	c, ctx := n.client(n.admin), client.WithIdempotencyKey(t.Context(), "k")
	req := api.FetchRequest{Queues: []string{"q"}}
	first, err := c.Fetch(ctx, req)
	if err != nil || first == nil {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := c.Fetch(ctx, req)
	if err != nil || again == nil {
		t.Fatalf("the repeat: %v, %v", again, err)
	}
	equal(t, "the repeat's job", again.JobID, first.JobID)
	equal(t, "the repeat's lease token", again.LeaseToken, first.LeaseToken)
}

// A job whose lease expires goes to a waiting fetch at once, without a backoff. Its attempt counts, and its
// error is kept.
func TestAnExpiredLeaseReturnsItsJobAtOnce(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.enqueued(`{"queue":"q","max_retries":2,"retry_backoff":"fixed","retry_base_delay":"1h"}`)
	first := n.fetched(n.send("POST", onePath, n.admin, `{"queues":["q"],"lease_duration":1,"timeout":0}`))[0]
	again := n.fetched(n.send("POST", onePath, n.admin, `{"queues":["q"],"lease_duration":60,"timeout":60}`))[0]
	if again.JobID != first.JobID || again.Attempt != 2 {
		t.Errorf("the waiting fetch got %s, attempt %d, want attempt 2 of %s", again.JobID, again.Attempt, first.JobID)
	}
	doc, err := n.client(n.admin).Job(context.Background(), first.JobID, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Errors) != 1 || doc.Errors[0].Error != "lease expired" {
		t.Errorf("the job's errors are %+v, want one of the expired lease", doc.Errors)
	}
}
