package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

func init() {
	shapes["GET /api/v1/workers"] = []string{""}
	c := scoped["GET /api/v1/queues"]
	c.path, c.has, c.lacks, c.status = "", `[]`, "theirs", http.StatusOK
	scoped["GET /api/v1/workers"] = c
}

// workers returns the listed workers by id, without their times.
func (n *node) workers(key string) string {
	n.t.Helper()
	c := n.client(key)
	defer c.Close() // callers poll, and each client has connections of its own
	all, err := c.Workers(n.t.Context(), client.Read{})
	if err != nil {
		n.t.Fatal(err)
	}
	var out []string
	for _, w := range all {
		text := fmt.Sprintf("%s@%s %v %d", w.ID, w.Hostname, w.Queues, w.Active)
		if w.Concurrency != 0 {
			text += fmt.Sprintf("/%d", w.Concurrency)
		}
		if w.Draining {
			text += " draining"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func (n *node) lists(key, want string) {
	n.t.Helper()
	if got := n.workers(key); got != want {
		n.t.Errorf("workers are %q, want %q", got, want)
	}
}

// fetchAs fetches a job of the queues as a worker, or returns nil.
func (n *node) fetchAs(worker, hostname string, queues ...string) *api.FetchedJob {
	n.t.Helper()
	f, err := n.client(n.admin).Fetch(n.t.Context(), api.FetchRequest{Queues: queues, WorkerID: worker, Hostname: hostname, Timeout: ptr(0)})
	if err != nil {
		n.t.Fatal(err)
	}
	return f
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	if a := n.send("GET", "/api/v1/workers", n.admin, ""); strings.TrimSpace(string(a.body)) != "[]" {
		t.Errorf("with nobody there: %s", a.body)
	}
	n.fill("a", "a", "b")
	first := n.fetchAs("w1", "host-1", "a", "c")
	n.fetchAs("w1", "", "a", "c")
	n.fetchAs("w2", "host-2", "idle")
	n.fetchAs("", "host-3", "b")
	n.lists(n.admin, "w1@host-1 [a c] 2, w2@host-2 [idle] 0")
	c := n.client(n.admin)
	if err := c.Ack(t.Context(), first.JobID, api.AckRequest{LeaseToken: first.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	n.lists(n.admin, "w1@host-1 [a c] 1, w2@host-2 [idle] 0")
	for _, c := range []struct{ scope, want string }{
		{"c", "w1@host-1 [c] 0"},
		{"a", "w1@host-1 [a] 1"},
		{"idle*", "w2@host-2 [idle] 0"},
		{"b", ""},
	} {
		n.lists(n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{tenancy.Glob(c.scope)}}), c.want)
	}
	if _, err := c.Fetch(t.Context(), api.FetchRequest{Queues: []string{"a"}, WorkerID: "w3", LeaseDuration: -1}); err == nil {
		t.Error("a lease of -1 s was given")
	}
	mine := n.client(n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}, QueueScope: []tenancy.Glob{"c"}}))
	if _, err := mine.Fetch(t.Context(), api.FetchRequest{Queues: []string{"a"}, WorkerID: "w3"}); api.CodeOf(err) != api.Forbidden {
		t.Errorf("a fetch out of scope: %v", err)
	}
	n.lists(n.admin, "w1@host-1 [a c] 1, w2@host-2 [idle] 0") // a refused caller is not listed
}

// A worker is listed while it sends any requests, and while it holds a job.
func TestWorkersAreForgottenUnlessTheyHold(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	n := startNode(t, func(c *server.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	n.fill("a", "b", "c", "d")
	n.fetchAs("idle", "", "empty")
	held := n.fetchAs("holder", "", "a")
	acks, fails, beats := n.fetchAs("acks", "", "b"), n.fetchAs("fails", "", "c"), n.fetchAs("beats", "", "d")
	later.Add(int64(job.WorkerForgotten) - int64(time.Minute))
	c := n.client(n.admin)
	if _, err := c.Heartbeat(t.Context(), api.HeartbeatRequest{Jobs: map[string]*api.HeartbeatJob{beats.JobID: {WorkerID: "beats"}}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Ack(t.Context(), acks.JobID, api.AckRequest{WorkerID: "acks"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Ack(t.Context(), beats.JobID, api.AckRequest{LeaseToken: beats.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fail(t.Context(), fails.JobID, api.FailRequest{WorkerID: "fails", Error: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Ack(t.Context(), held.JobID, api.AckRequest{WorkerID: "liar"}); api.CodeOf(err) != api.LeaseLost {
		t.Errorf("an ack of another's job: %v", err)
	}
	n.lists(n.admin, "acks@ [b] 0, beats@ [d] 0, fails@ [c] 0, holder@ [a] 1, idle@ [empty] 0")
	later.Add(int64(time.Minute) + int64(time.Second))
	n.lists(n.admin, "acks@ [b] 0, beats@ [d] 0, fails@ [c] 0, holder@ [a] 1")
	later.Add(int64(job.WorkerForgotten))
	n.lists(n.admin, "holder@ [a] 1")
	all, err := c.Workers(t.Context(), client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []api.Time{all[0].StartedAt, all[0].LastHeartbeat} {
		when, ok, err := at.Parse()
		if err != nil {
			t.Fatal(err)
		}
		if !ok || time.Since(when) > time.Minute || time.Until(when) > time.Minute {
			t.Errorf("a time of %+v is %v, which is not within a minute of now", all[0], when)
		}
	}
}

// A node lists the workers that sent it requests, and those that hold jobs on any node and every shard.
func TestWorkersOfOtherNodes(t *testing.T) {
	t.Parallel()
	const shards = 2
	members := startPeers(t, shards)
	for _, queue := range queueOn(shards) {
		members[0].enqueue(queue)
		members[0].do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q],"worker_id":"holder","hostname":"h"}`, queue), 200, nil)
	}
	members[0].do("POST", "/api/v1/fetch", `{"queues":["empty"],"worker_id":"idle","timeout":0}`, 204, nil)
	for i, want := range []string{"holder 2 2, idle 0 1", "holder 2 2", "holder 2 2"} {
		var all []api.Worker
		members[i].do("GET", "/api/v1/workers?consistency=strong", "", 200, &all)
		var got []string
		for _, w := range all {
			got = append(got, fmt.Sprint(w.ID, " ", w.Active, " ", len(w.Queues)))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("node %d knows %q, want %q", i, text, want)
		}
	}
}

// A worker reports its concurrency and its draining, over HTTP and RPC.
func TestWorkersReport(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c := n.client(n.admin)
	if _, err := c.Fetch(t.Context(), api.FetchRequest{Queues: []string{"q"}, WorkerID: "w", Timeout: ptr(0), Concurrency: 7}); err != nil {
		t.Fatal(err)
	}
	n.lists(n.admin, "w@ [q] 0/7")
	if _, err := c.Heartbeat(t.Context(), api.HeartbeatRequest{Jobs: map[string]*api.HeartbeatJob{}, WorkerID: "w", Draining: true}); err != nil {
		t.Fatal(err)
	}
	n.lists(n.admin, "w@ [q] 0/7 draining")
	for _, body := range []string{`{"queues":["q"],"concurrency":-1}`, `{"queues":["q"],"concurrency":1000001}`} {
		if p := n.send("POST", "/api/v1/fetch", n.admin, body).problem(t); p.Code != api.ValidationError || p.fields(t) != "concurrency" {
			t.Errorf("%s: %v", body, p)
		}
	}
	long := strings.Repeat("w", job.MaxWorkerID+1)
	if p := n.send("POST", "/api/v1/heartbeat", n.admin, `{"jobs":{},"worker_id":"`+long+`"}`).problem(t); p.fields(t) != "worker_id" {
		t.Errorf("%v", p)
	}
	for _, path := range []string{"Fetch", "FetchBatch"} {
		n.enqueued(`{"queue":"q"}`) // so that the fetch does not wait
		a := n.send("POST", "/corvo.v1.WorkerService/"+path, n.admin, `{"queues":["q"],"workerId":"`+path+`","leaseDuration":600,"concurrency":3}`, "Content-Type: application/json")
		if a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	a := n.send("POST", "/corvo.v1.WorkerService/Heartbeat", n.admin, `{"jobs":{},"workerId":"Fetch","concurrency":4,"draining":true}`, "Content-Type: application/json")
	if a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	n.lists(n.admin, "Fetch@ [q] 1/4 draining, FetchBatch@ [q] 1/3, w@ [q] 0/7 draining")
}
