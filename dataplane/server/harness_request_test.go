package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// key stores a key and returns its text.
func (n *node) key(k tenancy.Key) string {
	n.t.Helper()
	return server.KeyForTest(n.t, n.cell, k)
}

// client returns a client of the node that does not retry.
func (n *node) client(key string) *client.Client {
	n.t.Helper()
	c, err := client.New(n.url, key, client.WithRetries(0))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close)
	return c
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem is the body of an error answer.
type problem struct {
	Error   string         `json:"error"`
	Code    api.Code       `json:"code"`
	Details map[string]any `json:"details"`
}

// problem decodes the body of an error.
func (a answer) problem(t testing.TB) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return p
}

// fields returns the names in an answer's details.fields.
func (p problem) fields(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(p.Details["fields"])
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ Field, Error string }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("details.fields is %s", text)
	}
	var names []string
	for _, f := range list {
		if f.Error == "" {
			t.Errorf("nothing is said of %s", f.Field)
		}
		names = append(names, f.Field)
	}
	return strings.Join(names, " ")
}

// wantRetry checks an answer with status 429 that tells the client to try again in a second or later.
func (a answer) wantRetry(t testing.TB, code api.Code) {
	t.Helper()
	equal(t, "status", a.status, http.StatusTooManyRequests)
	equal(t, "code", a.problem(t).Code, code)
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q: %s", a.header.Get("Retry-After"), a.body)
	}
}

// send makes a request. Header lines are "Name: value".
func (n *node) send(method, path, key, body string, header ...string) answer {
	n.t.Helper()
	req, err := http.NewRequest(method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: got}
}

// ask sends a request without the network.
func (n *node) ask(method, path, key, body string) answer {
	n.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	w := serveOnce(n.server, r)
	return answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
}

// one enqueues a job and leases it.
func (n *node) one(c *client.Client, queue string) *api.FetchedJob {
	n.t.Helper()
	ctx := context.Background()
	if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: queue}); err != nil {
		n.t.Fatal(err)
	}
	f, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{queue}, WorkerID: "w1"})
	if err != nil || f == nil {
		n.t.Fatalf("fetch from %s: %v, %v", queue, f, err)
	}
	return f
}

// serveOnce serves a request in process. It leaves a stream at its first heartbeat.
func serveOnce(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w := &untilIdle{ResponseRecorder: httptest.NewRecorder(), leave: cancel}
	h.ServeHTTP(w, r.WithContext(ctx))
	return w.ResponseRecorder
}

// revoke revokes a key by an op, as another node would.
func (n *node) revoke(text string) {
	n.t.Helper()
	if _, _, err := cell.Propose[*op.RevokeKeyResult](context.Background(), n.cell, &op.RevokeKey{Id: keyID(text)}); err != nil {
		n.t.Fatal(err)
	}
}

// sample returns a path with its wildcards filled in.
func sample(path string) string {
	return strings.NewReplacer("{job_id}", "job_00000000000000000000000000", "{name}", "q", "{queue}", "q", "{id}", "nobody", "{scope}", "queue", "{target}", "q").Replace(path)
}

// harmless returns a body that changes nothing, or little, if the request is accepted.
func harmless(path string) string {
	if strings.HasPrefix(path, "/api/v1/fetch") {
		return `{"queues":["q"],"timeout":0}`
	}
	return `{}`
}

// do sends a request as the admin, checks the status and decodes the answer. It repeats a request that the server
// refuses with 429, because on a busy machine the view may be late.
func (n *node) do(method, path, body string, status int, into any, headers ...string) (a answer) {
	n.t.Helper()
	eventually(n.t, "it is answered in time", func() bool {
		a = n.send(method, path, n.admin, body, headers...)
		return a.status == status || a.status != 429
	})
	if a.status != status {
		n.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, a.status, a.body, status)
	}
	if into != nil {
		if err := json.Unmarshal(a.body, into); err != nil {
			n.t.Fatalf("%s %s: %s: %v", method, path, a.body, err)
		}
	}
	return a
}

// enqueue enqueues a job and returns its id.
func (n *node) enqueue(queue string) string {
	n.t.Helper()
	var made api.EnqueueResponse
	n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q}`, queue), 201, &made)
	return made.JobID
}

// quoted returns a list as JSON.
func quoted(list []string) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // a list of strings always encodes
	}
	return string(text)
}

// poll fetches a job of queues, a JSON list, and waits for it. It may run concurrently with the test.
func (n *node) poll(queues string) (j api.FetchedJob) {
	a := n.send("POST", "/api/v1/fetch", "", fmt.Sprintf(`{"queues":%s,"timeout":60}`, queues))
	if err := json.Unmarshal(a.body, &j); a.status != 200 || err != nil {
		n.t.Errorf("poll: %d %s", a.status, a.body)
	}
	return j
}

// moveUntilThere moves a job, which may be on its way from the move before.
func (n *node) moveUntilThere(id, queue string, into *api.Status) {
	n.t.Helper()
	eventually(n.t, "the job can be moved", func() bool {
		a := n.send("POST", "/api/v1/jobs/"+id+"/move", "", fmt.Sprintf(`{"queue":%q}`, queue))
		switch a.status {
		case 200:
			if err := json.Unmarshal(a.body, into); err != nil {
				n.t.Fatal(err)
			}
			return true
		case 503:
			return false
		}
		n.t.Fatalf("move: %d %s", a.status, a.body)
		return false
	})
}

// enqueued enqueues the job of a body and returns its id.
func (n *node) enqueued(body string) string {
	n.t.Helper()
	return answers[api.EnqueueResponse](n, http.StatusCreated, "POST", "/enqueue", body).JobID
}

// nextOf fetches the next job of a queue, which must be there.
func (n *node) nextOf(queue string) api.FetchedJob {
	n.t.Helper()
	var got api.FetchedJob
	n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q],"worker_id":"w1","timeout":0}`, queue), http.StatusOK, &got)
	return got
}

// ok sends a request that must succeed.
func (n *node) ok(into any, method, path, body string, header ...string) answer {
	n.t.Helper()
	a := n.send(method, "/api/v1"+path, n.admin, body, header...)
	if a.status < 200 || a.status > 299 {
		n.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	if into != nil {
		if err := json.Unmarshal(a.body, into); err != nil {
			n.t.Fatal(err)
		}
	}
	return a
}

// answers sends a request as the admin, checks the status and decodes the answer.
func answers[R any](n *node, status int, method, path, body string, header ...string) (out R) {
	n.t.Helper()
	a := n.send(method, "/api/v1"+path, n.admin, body, header...)
	if a.status != status {
		n.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	if len(a.body) > 0 {
		if err := json.Unmarshal(a.body, &out); err != nil {
			n.t.Fatalf("%s %s: %s: %v", method, path, a.body, err)
		}
	}
	return out
}

// document returns a job as GET shows it, and checks that a search shows the same payload.
func (n *node) document(id string) (j api.Job) {
	n.t.Helper()
	n.do("GET", "/api/v1/jobs/"+id, "", 200, &j)
	var found api.SearchResponse
	n.do("POST", "/api/v1/jobs/search?consistency=strong", fmt.Sprintf(`{"job_id_prefix":%q}`, id), 200, &found)
	if len(found.Jobs) != 1 || string(found.Jobs[0].Payload) != string(j.Payload) {
		n.t.Errorf("a search shows %+v, a look %s", found.Jobs, j.Payload)
	}
	return j
}

// queue returns a queue by GET.
func (n *node) queue(name string) api.Queue {
	n.t.Helper()
	q, err := n.client(n.admin).Queue(context.Background(), name, client.Read{})
	if err != nil {
		n.t.Fatal(err)
	}
	return q
}

// take fetches the next job of a queue and waits for it.
func (n *node) take(queue string) api.FetchedJob {
	n.t.Helper()
	return answers[api.FetchedJob](n, 200, "POST", "/fetch", fmt.Sprintf(`{"queues":[%q],"worker_id":"w1","timeout":60}`, queue))
}

// settled waits until a job has a state. It fails the test if the job becomes dead or completed instead.
func (n *node) settled(id, state string) (j api.Job) {
	n.t.Helper()
	c := n.client(n.admin)
	eventually(n.t, fmt.Sprintf("job %s is %s", id, state), func() bool {
		var err error
		if j, err = c.Job(n.t.Context(), id, client.Read{}); err != nil {
			n.t.Fatal(err)
		}
		if j.State != state && (j.State == "dead" || j.State == "completed") {
			n.t.Fatalf("job %s is %s, want %s: %+v", id, j.State, state, j.Errors)
		}
		return j.State == state
	})
	return j
}

// untouched fails the test unless the job waits as if it had never been fetched.
func (n *node) untouched(id string) {
	n.t.Helper()
	doc, err := n.client(n.admin).Job(context.Background(), id, client.Read{})
	if err != nil {
		n.t.Fatal(err)
	}
	if doc.State != "pending" || doc.Attempt != 0 || len(doc.Errors) != 0 {
		n.t.Errorf("%s is %s after %d attempts and %d errors", id, doc.State, doc.Attempt, len(doc.Errors))
	}
}

// fill enqueues a job in each queue.
func (n *node) fill(queues ...string) {
	n.t.Helper()
	for _, queue := range queues {
		n.enqueue(queue)
	}
}

// keyID returns the id of a key's text.
func keyID(text string) string { return server.KeyIDForTest(text) }
