//go:build unix

package perf_test

import (
	"flag"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

var sustained = flag.Duration("sustained.for", 0, "how long TestListsUnderSustainedLoad loads a node; 0 = skip it")

// currentWithin bounds the time after the load until the lists are current, if the view continues;
// builtWithin bounds it if the view is built anew.
const (
	currentWithin = 30 * time.Second
	builtWithin   = time.Minute
)

// sustainedLists are the reads that an operator makes of a busy node.
var sustainedLists = []struct{ method, path, body string }{
	{"GET", "/api/v1/queues", ""},
	{"GET", "/api/v1/queues/bench-0", ""},
	{"POST", "/api/v1/jobs/search", `{"queue":"bench-0"}`},
	{"POST", "/api/v1/jobs/search", `{"state":["completed"]}`},
	{"GET", "/api/v1/usage/summary", ""},
	{"GET", "/api/v1/workers", ""},
	{"GET", "/api/v1/dead", ""},
	{"GET", "/api/v1/metrics/throughput", ""},
}

// TestListsUnderSustainedLoad puts as much load on a node as the machine bears. Every plain list must answer
// meanwhile, with its age, and be current soon after the load. It prints the figures of "Lists under maximum
// load" in docs/benchmarks.md.
func TestListsUnderSustainedLoad(t *testing.T) {
	if *sustained == 0 {
		t.Skip("a measurement: make sustained")
	}
	node, url := serveNode(t, t.TempDir())
	c := node.Cells()[0]
	l := startLoad(512, func(caller int) error { return lifecycle(c, caller) })
	var slowest, oldest time.Duration
	var slowestPath string
	asked := 0
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for l.done.Load() < 512 { // until every queue exists
		<-tick.C
	}
	for end := time.Now().Add(*sustained); time.Now().Before(end); <-tick.C {
		for _, list := range sustainedLists {
			took, age := askList(t, node.FirstKey, list.method, url+list.path, list.body)
			if took > slowest {
				slowest, slowestPath = took, list.path
			}
			oldest, asked = max(oldest, age), asked+1
		}
	}
	l.stop(t)
	stopped := time.Now()
	behind, late := c.View().Lag()
	used := cpuTime(t)
	status, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	limit := currentWithin
	for {
		if events, _ := c.View().Lag(); events == 0 {
			break
		}
		if status, err := c.Status(); err == nil && status.ViewBuilding {
			limit = builtWithin
		}
		if time.Since(stopped) > limit {
			t.Fatalf("the view is not current %v after the load", limit)
		}
		<-tick.C
	}
	t.Logf("at the end of the load the view was %v behind (%d events); the processors worked for %v afterwards", late, behind, cpuTime(t)-used)
	t.Logf("%d jobs in %v (%.0f a second); %d lists answered, the slowest (%s) in %v, the oldest %v old; %d events kept; current %v after the load",
		l.done.Load(), *sustained, float64(l.done.Load())/sustained.Seconds(), asked, slowestPath, slowest, oldest, status.FeedEvents, time.Since(stopped).Round(time.Millisecond))
}

// askList asks for a list and returns how long the answer took and how old it is.
func askList(t *testing.T, key, method, url, body string) (took, age time.Duration) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	begun := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	took = time.Since(begun)
	lag, err := strconv.Atoi(resp.Header.Get("Corvo-View-Lag-Ms"))
	if resp.StatusCode != http.StatusOK || err != nil {
		t.Errorf("%s %s: %d %.200s, its age is %q", method, url, resp.StatusCode, text, resp.Header.Get("Corvo-View-Lag-Ms"))
	}
	return took, time.Duration(lag) * time.Millisecond
}
