package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/server"
)

// slowBody sends a body that does not end until it is released.
func (n *node) slowBody(path string, size int64) (let func() int) {
	n.t.Helper()
	body, write := io.Pipe()
	req, err := http.NewRequest("POST", n.url+path, body)
	if err != nil {
		n.t.Fatal(err)
	}
	req.ContentLength = size
	status := make(chan int, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	return func() int {
		const text = `{"queue":"q"}`
		if _, err := io.WriteString(write, text+strings.Repeat(" ", int(size)-len(text))); err != nil {
			n.t.Error(err)
		}
		write.Close()
		return <-status
	}
}

// The bytes of the bodies in flight are bounded, and requests are accepted up to the bound.
func TestBodiesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	const most = 1000
	n := startShards(t, 1, func(c *server.Config) { c.MaxBodies = most })
	let := n.slowBody("/api/v1/enqueue", most-100)
	eventually(t, "the body is counted", func() bool { return n.server.BodyBytes() == most-100 })
	fits := `{"queue":"q"}` + strings.Repeat(" ", 100-len(`{"queue":"q"}`))
	n.do("POST", "/api/v1/enqueue", fits, 201, nil)
	a := n.do("POST", "/api/v1/enqueue", fits+" ", 429, nil)
	if p := a.problem(t); p.Code != api.Overloaded || a.header.Get("Retry-After") == "" {
		t.Errorf("one byte more: %s, Retry-After %q", a.body, a.header.Get("Retry-After"))
	}
	if got := n.figures()[`corvo_overloads_refused_total{by="bodies"}`]; got != 1 {
		t.Errorf("%v are counted as refused", got)
	}
	if got := let(); got != 201 {
		t.Errorf("the slow one: %d", got)
	}
	eventually(t, "all of it is given back", func() bool { return n.server.BodyBytes() == 0 })
	n.do("POST", "/api/v1/enqueue", fits+" ", 201, nil)
}

// Waiting polls do not count, because their bodies have been read.
func TestWaitingPollsHoldNoRoom(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.send("POST", "/api/v1/fetch", "", `{"queues":["q"],"timeout":60}`)
	}()
	eventually(t, "the poll is parked", func() bool { return n.figures()["corvo_fetch_polls_parked"] == 1 })
	if used := n.server.BodyBytes(); used != 0 {
		t.Errorf("a waiting poll holds %d bytes", used)
	}
	n.server.Drain()
	<-done
}

// Searches have a bound of their own, and writes continue when it is reached.
func TestSearchesAreBounded(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, func(c *server.Config) { c.MaxSearches = 2 })
	// Two searches that wait for an entry that has not come.
	behind := server.EncodeIndex(0, n.cell.Applied()+3)
	waiting := make(chan int, 2)
	for range cap(waiting) {
		go func() { waiting <- n.send("GET", "/api/v1/queues?min_index="+behind, "", "").status }()
	}
	eventually(t, "two are under way", func() bool { return n.server.Searches() == 2 })
	for method, path := range map[string]string{"POST": "/api/v1/jobs/search", "GET": "/api/v1/queues"} {
		a := n.do(method, path, "", 429, nil)
		if p := a.problem(t); p.Code != api.Overloaded || a.header.Get("Retry-After") == "" {
			t.Errorf("a third: %s, Retry-After %q", a.body, a.header.Get("Retry-After"))
		}
	}
	if got := n.figures()[`corvo_overloads_refused_total{by="searches"}`]; got != 2 {
		t.Errorf("%v are counted as refused", got)
	}
	for i := range 3 {
		n.enqueue(fmt.Sprintf("q%d", i))
	}
	for range cap(waiting) {
		if got := <-waiting; got != 200 {
			t.Errorf("one that waited: %d", got)
		}
	}
	n.do("POST", "/api/v1/jobs/search", "", 200, nil)
}
