package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
)

// A poll of a namespace that closes ends at once with a retryable error, because the namespace may open on
// another host before the poll's minute is over.
func TestPollsEndWhenTheirNamespaceCloses(t *testing.T) {
	t.Parallel()
	a, b := openTenants(t, nil)
	poll := func(v *tenant) <-chan answer {
		out := make(chan answer, 1)
		go func() { out <- v.ask("POST", "/api/v1/fetch", `{"queues":["later"],"timeout":60}`) }()
		return out
	}
	ends, stays := poll(a), poll(b)
	h := a.server.Config().Host
	eventually(t, "both polls wait", func() bool {
		one, err := h.Polls(a.ns)
		two, err2 := h.Polls(b.ns)
		return err == nil && err2 == nil && one.Parked == 1 && two.Parked == 1
	})
	if err := h.Shut(t.Context(), a.ns); err != nil {
		t.Fatal(err)
	}
	if got := <-ends; got.status != 503 || got.problem(t).Details["retryable"] != true {
		t.Errorf("its poll: %d %s", got.status, got.body)
	}
	if got := a.ask("GET", "/api/v1/queues", ""); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("a request after that: %d %s", got.status, got.body)
	}
	b.must(nil, "POST", "/api/v1/enqueue", `{"queue":"later"}`)
	if got := <-stays; got.status != 200 {
		t.Errorf("the other tenant's poll: %d %s", got.status, got.body)
	}
}

// A namespace is closed and opened again under load. Each request is served or gets a retryable error, and no
// acknowledged write is lost.
func TestNamespaceClosesUnderLoad(t *testing.T) {
	t.Parallel()
	a, b := openTenants(t, nil)
	stop, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	for worker := range 2 {
		for _, route := range []struct{ method, path, body string }{
			{"POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":"load-%d"}`, worker)},
			{"POST", "/api/v1/fetch", `{"queues":["load-0","nothing"],"timeout":1}`},
			{"POST", "/api/v1/jobs/search", `{"limit":5}`},
			{"GET", "/api/v1/jobs/" + a.values[0], ""},
			{"GET", "/api/v1/metrics", ""},
			{"GET", "/api/v1/cluster/status", ""},
			{"GET", "/readyz", ""},
		} {
			group.Go(func() {
				pace := time.NewTicker(time.Millisecond) // clients are on other machines
				defer pace.Stop()
				for ; stop.Err() == nil; <-pace.C {
					got := a.ask(route.method, route.path, route.body)
					if got.status >= 300 && got.status != 503 && got.status != 429 {
						t.Errorf("%s %s: %d %s", route.method, route.path, got.status, got.body)
						return
					}
					if id, ok := strings.CutPrefix(string(got.body), `{"job_id":"`); ok && got.status == 201 {
						mu.Lock()
						acknowledged[id[:len("job_00000000000000000000000000")]] = true
						mu.Unlock()
					}
				}
			})
		}
	}
	h := a.server.Config().Host
	for range 3 {
		before := acknowledgedSoFar(&mu, acknowledged)
		eventually(t, "the load goes on", func() bool { return acknowledgedSoFar(&mu, acknowledged) > before+5 })
		if err := h.Shut(t.Context(), a.ns); err != nil {
			t.Fatal(err)
		}
		b.must(nil, "POST", "/api/v1/enqueue", `{"queue":"beside"}`)
		if err := add(t.Context(), h, a.ns); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	group.Wait()
	for id := range acknowledged {
		var j api.Job
		a.must(&j, "GET", "/api/v1/jobs/"+id, "")
	}
}

func acknowledgedSoFar(mu *sync.Mutex, all map[string]bool) int {
	mu.Lock()
	defer mu.Unlock()
	return len(all)
}

// On a self-hosted node, too, a poll ends when its key is revoked.
func TestRevokingEndsPollsOfABareNode(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	var made api.CreatedKey
	if got := n.ask("POST", "/api/v1/auth/keys", n.admin, `{"name":"w","roles":["worker"]}`); got.status != 201 {
		t.Fatalf("%d %s", got.status, got.body)
	} else if err := json.Unmarshal(got.body, &made); err != nil {
		t.Fatal(err)
	}
	out := make(chan answer, 1)
	go func() { out <- n.ask("POST", "/api/v1/fetch", made.APIKey, `{"queues":["later"],"timeout":60}`) }()
	n.parked(1)
	eventually(t, "the poll waits", func() bool {
		polls, err := n.server.Config().Host.Polls(n.server.Config().Namespace)
		return err == nil && polls.Parked == 1
	})
	if got := n.ask("DELETE", "/api/v1/auth/keys/"+made.ID, n.admin, ""); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := <-out; got.status != 401 {
		t.Errorf("its poll: %d %s", got.status, got.body)
	}
}
