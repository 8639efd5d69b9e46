//go:build unix

package perf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/job"
)

var million = flag.Int("million.jobs", 3000, "about how many jobs TestEveryCountIsARecount makes")

// run is a node that many jobs pass through, and the memory of its clients.
type run struct {
	t    *testing.T
	node *dataplane.Node
	dir  string
	url  string
	http *http.Client

	mu       sync.Mutex
	queues   map[string]*heard
	batches  map[string]int // number of deleted members by id
	schedule string
	revived  sync.Map // ids of dead jobs that were retried by hand
}

// heard counts the answers that clients received about the jobs of one queue.
type heard struct {
	enqueued int // jobs created by request
	acked    int
	failed   int // attempts
	revived  int // dead jobs retried by hand
	deleted  int
}

// TestEveryCountIsARecount sends jobs of every shape through a node and then counts them one by one. The
// numbers that queues, batches, searches and the SQL tables report must agree with the count, and so must the
// answers that clients received. `make million` does it with a million jobs and prints the figures of "A
// million jobs of every shape" in docs/benchmarks.md.
func TestEveryCountIsARecount(t *testing.T) {
	t.Parallel()
	r := newRun(t)
	begun := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var workers, producers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() { r.work(ctx, w) })
	}
	var made atomic.Int64
	for p := range 4 {
		producers.Go(func() {
			for i := 0; made.Add(roundJobs) <= int64(*million) && !t.Failed(); i++ {
				r.produce(p, i)
			}
		})
	}
	producers.Wait()
	enqueued := time.Since(begun)
	r.settle()
	settled := time.Since(begun)
	stop()
	workers.Wait()
	r.pose()
	jobs := r.recount()
	counted := time.Since(begun) - settled
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d jobs: enqueued in %v, settled in %v (%.0f jobs/s), counted in %v; heap %d MiB at the end, resident at most %s",
		jobs, enqueued.Round(time.Millisecond), settled.Round(time.Millisecond), float64(jobs)/settled.Seconds(),
		counted.Round(time.Millisecond), m.HeapInuse>>20, mostResident())
}

// mostResident returns the highest memory use of the process, as Linux reports it, or "?" on other systems.
func mostResident() string {
	status, _ := os.ReadFile("/proc/self/status") // only Linux has the file
	for line := range strings.Lines(string(status)) {
		if size, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(size)
		}
	}
	return "?"
}

func newRun(t *testing.T) *run {
	t.Helper()
	dir := t.TempDir()
	node, url := serveNode(t, dir)
	views, err := filepath.Glob(filepath.Join(dir, "ns", "*", "0", "view"))
	if err != nil || len(views) != 1 {
		t.Fatalf("the view lies in %v: %v", views, err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	r := &run{
		t: t, node: node, dir: views[0], url: url, http: &http.Client{Transport: keyed{node.FirstKey, transport}},
		queues: map[string]*heard{}, batches: map[string]int{},
	}
	r.call("PUT", "/queues/plain", `{"max_concurrency":5000}`, nil)
	var made api.Schedule
	r.call("POST", "/schedules", `{"name":"ticking","queue":"ticks","cron":"* * * * * *","missed":"all"}`, &made)
	r.schedule = made.ID
	r.call("POST", "/schedules/"+r.schedule+"/run", `{}`, nil)
	return r
}

// keyed sends a key with every request.
type keyed struct {
	key string
	by  http.RoundTripper
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+k.key)
	return k.by.RoundTrip(r)
}

// call sends a request and reads its answer. It fails the test if the answer is an error.
func (r *run) call(method, path, body string, into any) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, r.url+"/api/v1"+path, bytes.NewBufferString(body))
	if err != nil {
		r.t.Error(err)
		return
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		r.t.Errorf("%s %s %.200s: %d %s %v", method, path, body, resp.StatusCode, answer, err)
		return
	}
	if into != nil && len(answer) > 0 {
		if err := json.Unmarshal(answer, into); err != nil {
			r.t.Errorf("%s %s answered %s: %v", method, path, answer, err)
		}
	}
}

// send does the same as call, and encodes the body.
func (r *run) send(method, path string, body, into any) {
	r.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.call(method, path, string(data), into)
}

// hear records an answer about the jobs of a queue.
func (r *run) hear(queue string, note func(*heard)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.queues[queue]
	if of == nil {
		of = &heard{}
		r.queues[queue] = of
	}
	note(of)
}

// settle waits until every job is in a state that it keeps.
func (r *run) settle() {
	r.t.Helper()
	r.call("POST", "/schedules/"+r.schedule+"/pause", `{}`, nil)
	patience := time.After(5*time.Minute + time.Duration(*million)*time.Millisecond)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !r.t.Failed() {
		moving := r.moving()
		if moving == 0 {
			return
		}
		select {
		case <-look.C:
		case <-patience:
			r.t.Fatalf("%d jobs have not settled", moving)
		}
	}
}

// moving counts the jobs that will still change, by the store's counters. It does not ask the view, because
// the view is under test.
func (r *run) moving() (n int) {
	snap := r.node.Cells()[0].State().Snapshot()
	defer snap.Close()
	for q, err := range snap.Queues() {
		if err != nil {
			r.t.Fatal(err)
		}
		if q.Name == laterQueue {
			continue
		}
		for _, state := range []job.State{job.Scheduled, job.Pending, job.Active, job.Retrying} {
			n += int(q.InState[state])
		}
	}
	return n
}
