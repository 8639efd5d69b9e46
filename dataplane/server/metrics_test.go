package server_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// series returns the series of a metric.
func series(figures map[string]float64, metric string) (all []string) {
	for name := range figures {
		if name == metric || strings.HasPrefix(name, metric+"{") {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// ofTheCloud lists the metrics that only processes of the cloud publish.
var ofTheCloud = []string{
	"corvo_certificate_remaining_seconds", "corvo_foreign_namespaces", "corvo_gateway_documents_age_seconds", "corvo_gateway_waiting_requests", "corvo_gateway_waits_total",
	"corvo_usage_aside_bytes", "corvo_usage_aside_frames", "corvo_usage_stuck_shards",
}

// A node that has worked publishes every metric that has a name.
func TestEveryMetricIsPublished(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.one(n.client(n.admin), "q")
	n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","no_such":1}`)
	n.figures() // so that the route has a histogram
	figures := n.figures()
	golden, err := os.ReadFile(filepath.Join("..", "..", "telemetry", "testdata", "metrics.golden"))
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for line := range strings.Lines(string(golden)) {
		name, _, _ := strings.Cut(line, "{")
		known[name] = true
		if slices.Contains(ofTheCloud, name) {
			continue
		}
		if len(series(figures, name))+len(series(figures, name+"_bucket")) == 0 {
			t.Errorf("%s is not published", name)
		}
	}
	for name := range figures {
		base, _, _ := strings.Cut(name, "{")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !known[base] {
			t.Errorf("%s is published and not in the golden file", name)
		}
	}
}

func TestMetricsMove(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	const pending, active, dead = `corvo_queue_jobs{queue="q",state="pending"}`, `corvo_queue_jobs{queue="q",state="active"}`, `corvo_queue_jobs{queue="q",state="dead"}`
	check := func(when string, want map[string]float64) map[string]float64 {
		t.Helper()
		got := n.figures()
		for _, name := range slices.Sorted(maps.Keys(want)) {
			value, ok := got[name]
			if !ok || value != want[name] {
				t.Errorf("%s: %s is %v (published: %v), want %v", when, name, value, ok, want[name])
			}
		}
		return got
	}
	empty := check("at the start", map[string]float64{
		"corvo_healthy": 1, `corvo_raft_leader{shard="0"}`: 1, "corvo_queues": 0, "corvo_fetch_polls_parked": 0, `corvo_idempotency_records{shard="0"}`: 0,
		"corvo_alerts_dropped_total": 0,
	})
	for i := range 3 {
		if a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","max_retries":1}`, fmt.Sprint("Idempotency-Key: k", i)); a.status != 201 {
			t.Fatalf("enqueue: %d %s", a.status, a.body)
		}
	}
	filled := check("after three jobs", map[string]float64{
		pending: 3, active: 0, dead: 0, "corvo_queues": 1, `corvo_idempotency_records{shard="0"}`: 3,
		`corvo_raft_applied_index{shard="0"}`:           empty[`corvo_raft_applied_index{shard="0"}`] + 3,
		`corvo_feed_events{shard="0"}`:                  empty[`corvo_feed_events{shard="0"}`] + 3,
		`corvo_pipeline_queue_seconds_count{shard="0"}`: empty[`corvo_pipeline_queue_seconds_count{shard="0"}`] + 3,
		`corvo_pipeline_apply_seconds_count{shard="0"}`: empty[`corvo_pipeline_apply_seconds_count{shard="0"}`] + 3,
		`corvo_queue_paused{queue="q"}`:                 0,
	})
	for _, name := range []string{`corvo_raft_term{shard="0"}`, `corvo_raft_log_bytes{shard="0"}`, "corvo_disk_free_bytes", `corvo_pipeline_apply_seconds_sum{shard="0"}`} {
		if filled[name] <= 0 {
			t.Errorf("%s is %v", name, filled[name])
		}
	}
	f, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"q"}})
	if err != nil || f == nil {
		t.Fatalf("fetch: %v, %v", f, err)
	}
	check("after a fetch", map[string]float64{pending: 2, active: 1, dead: 0})
	if _, err := c.Fail(ctx, f.JobID, api.FailRequest{Error: "no", LeaseToken: f.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	check("after a failure for good", map[string]float64{pending: 2, active: 0, dead: 1})
	if err := c.PauseQueue(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	check("after a pause", map[string]float64{`corvo_queue_paused{queue="q"}`: 1, pending: 2})
	if err := n.cell.View().Wait(ctx, uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	check("when the view has come up", map[string]float64{`corvo_view_lag_events{shard="0"}`: 0, `corvo_view_lag_seconds{shard="0"}`: 0})
}

// TestParkedPollsAreCounted checks that the gauge counts polls while they wait, and none after a drain.
func TestParkedPollsAreCounted(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	var polls sync.WaitGroup
	for range 2 {
		polls.Go(func() {
			n.send("POST", "/api/v1/fetch", n.admin, `{"queues":["a","b"],"timeout":60}`)
		})
	}
	eventually(t, "two polls are parked", func() bool { return n.figures()["corvo_fetch_polls_parked"] == 2 })
	n.server.Drain()
	polls.Wait()
	if got := n.figures()["corvo_fetch_polls_parked"]; got != 0 {
		t.Errorf("%v polls are parked after the drain", got)
	}
}

// A fetch that loses its claimed job to another is logged and counted as empty.
func TestEmptyFetchesAreCounted(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	const empty = "corvo_fetch_empty_total"
	if a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q"}`); a.status != 201 {
		t.Fatalf("enqueue: %d %s", a.status, a.body)
	}
	for i, want := range []struct {
		leased int
		empty  float64
	}{{1, 0}, {0, 1}, {0, 2}} {
		leased, err := n.server.FetchClaimed(n.cell, n.shards(), "q")
		if err != nil || leased != want.leased {
			t.Fatalf("fetch %d: %v, %v", i, leased, err)
		}
		if got := n.figures()[empty]; got != want.empty {
			t.Errorf("fetch %d: %s is %v, want %v", i, empty, got, want.empty)
		}
	}
	// A fetch that finds no job to claim logs nothing.
	before := n.cell.Applied()
	if a := n.send("POST", "/api/v1/fetch", n.admin, `{"queues":["q"],"timeout":0}`); a.status != 204 {
		t.Fatalf("fetch: %d %s", a.status, a.body)
	}
	if got := n.figures()[empty]; got != 2 || n.cell.Applied() != before {
		t.Errorf("a fetch that finds nothing: %s is %v, %d entries were logged", empty, got, n.cell.Applied()-before)
	}
}

// The number of queue labels is bounded for any number of queues, and the sums are complete.
func TestQueueSeriesAreBounded(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	fill := func(from, to int) {
		t.Helper()
		var jobs []string
		for i := from; i < to; i++ {
			jobs = append(jobs, fmt.Sprintf(`{"queue":"q%04d"}`, i))
		}
		if a := n.send("POST", "/api/v1/enqueue/batch", n.admin, `{"jobs":[`+strings.Join(jobs, ",")+`]}`); a.status != 201 {
			t.Fatalf("enqueue: %d %s", a.status, a.body)
		}
	}
	expect := func(queues int, others map[string]float64) {
		t.Helper()
		figures := n.figures()
		own := min(queues, server.MaxQueueSeries)
		total := 0.0
		for _, name := range series(figures, "corvo_queue_jobs") {
			if strings.Contains(name, `state="pending"`) {
				total += figures[name]
			}
		}
		extra := min(queues-own, 1)
		if got := len(series(figures, "corvo_queue_paused")); got != own+extra {
			t.Errorf("%d queues: %d series, want %d", queues, got, own+extra)
		}
		if got := len(series(figures, "corvo_queue_jobs")); got != len(server.QueueStates)*(own+extra) {
			t.Errorf("%d queues: %d series of jobs, want %d", queues, got, len(server.QueueStates)*(own+extra))
		}
		if figures["corvo_queues"] != float64(queues) || total != float64(queues) {
			t.Errorf("%d queues: %v, with %v jobs", queues, figures["corvo_queues"], total)
		}
		for name, want := range others {
			if got, ok := figures[name]; !ok || got != want {
				t.Errorf("%d queues: %s is %v (published: %v), want %v", queues, name, got, ok, want)
			}
		}
	}
	// The newest queue has the first name and must not take the series of an older one.
	fill(1, server.MaxQueueSeries+1)
	expect(server.MaxQueueSeries, map[string]float64{`corvo_queue_paused{queue="q0200"}`: 0})
	fill(0, 1)
	if err := n.client(n.admin).PauseQueue(context.Background(), "q0000"); err != nil {
		t.Fatal(err)
	}
	expect(server.MaxQueueSeries+1, map[string]float64{
		`corvo_queue_paused{queue="q0200"}`:               0,
		`corvo_queue_paused{queue="*"}`:                   1,
		`corvo_queue_jobs{queue="*",state="pending"}`:     1,
		`corvo_queue_jobs{queue="q0001",state="pending"}`: 1,
	})
	if err := job.CheckQueueName(server.EveryOther); err == nil {
		t.Errorf("%s is a name a queue may have", server.EveryOther)
	}
}

// Labels that come from requests belong to a fixed set.
func TestHTTPLabelsAreBounded(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	one := n.one(n.client(n.admin), "q")
	n.send("GET", "/api/v1/jobs/"+one.JobID, n.admin, "")
	n.send("BREW", "/coffee/"+one.JobID, n.admin, "")
	for name := range n.figures() {
		if strings.Contains(name, one.JobID) || strings.Contains(name, "BREW") {
			t.Errorf("series %s", name)
		}
	}
}

// The metrics name every queue, so a key with a scope gets none.
func TestMetricsAreNotForScopedKeys(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	scoped := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine.*"}})
	if a := n.send("GET", "/api/v1/metrics", scoped, ""); a.status != 403 || a.problem(t).Code != api.Forbidden {
		t.Errorf("a scoped key: %d %.200s", a.status, a.body)
	}
	whole := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}})
	if a := n.send("GET", "/api/v1/metrics", whole, ""); a.status != 200 {
		t.Errorf("a key without a scope: %d %.200s", a.status, a.body)
	}
}

// A node whose store is closed still answers a scrape and reports the failure.
func TestMetricsOfABrokenNode(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(cfg *server.Config) { cfg.Dev = true })
	if err := n.cell.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	figures := n.figures()
	if got, ok := figures["corvo_healthy"]; !ok || got != 0 {
		t.Errorf("corvo_healthy is %v (published: %v)", got, ok)
	}
}

func TestClusterStatusNumbers(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	before, err := c.ClusterStatus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n.one(c, "q") // two writes
	after, err := c.ClusterStatus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]struct{ before, after api.Histogram }{
		"queue_time_hist": {before.QueueTime, after.QueueTime},
		"apply_time_hist": {before.ApplyTime, after.ApplyTime},
	} {
		var sum uint64
		last := int64(0)
		for i, b := range h.after.Buckets {
			sum += b.Count
			switch {
			case b.UpTo == nil && i != len(h.after.Buckets)-1:
				t.Errorf("%s: bucket %d has no bound", name, i)
			case b.UpTo != nil && *b.UpTo <= last:
				t.Errorf("%s: the bound %d follows %d", name, *b.UpTo, last)
			case b.UpTo != nil:
				last = *b.UpTo
			}
		}
		if h.after.Count != h.before.Count+2 || sum != h.after.Count || h.after.Unit != "us" {
			t.Errorf("%s: %d, then %d of %d in buckets, unit %q", name, h.before.Count, h.after.Count, sum, h.after.Unit)
		}
		if h.after.P50 > h.after.P90 || h.after.P90 > h.after.P99 {
			t.Errorf("%s: %+v", name, h.after)
		}
	}
	if after.ApplyTime.P99 <= 0 || after.ApplyTime.Avg <= 0 {
		t.Errorf("entries were durable in no time: %+v", after.ApplyTime)
	}
	if after.Disk.Data <= 0 || after.Disk.Free == nil || *after.Disk.Free <= 0 {
		t.Errorf("disk: %+v", after.Disk)
	}
}

// TestMetricsAtTheRoot checks that /metrics, the default path of Prometheus, serves the metrics to a bearer
// token with the role readonly.
func TestMetricsAtTheRoot(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	reader := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}})
	a := n.send("GET", "/metrics", reader, "", "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") || !strings.Contains(string(a.body), "\ncorvo_healthy 1\n") {
		t.Errorf("%d %v %.200s", a.status, a.header, a.body)
	}
	if a := n.send("GET", "/metrics", "", ""); a.status != 401 {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
	if a := n.send("GET", "/metrics?collect[]=queues", reader, ""); a.status != 200 {
		t.Errorf("with a parameter that Prometheus may send: %d %s", a.status, a.body)
	}
}
