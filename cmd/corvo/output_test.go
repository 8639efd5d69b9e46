package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/corvo/corvo/api"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// TestTables checks the tables that commands print for people.
func TestTables(t *testing.T) {
	t.Parallel()
	alone := api.ClusterStatus{
		Mode: "single", Cluster: "default/0", NodeID: "node-1", State: "leader", Term: 2, LeaderID: "node-1", Shards: 1, RaftStore: "wal",
		Nodes:       []api.ClusterNode{{ID: "node-1", Role: "leader", Self: true, Voter: true, Connected: true, Version: "v1.2.3"}},
		ShardStatus: []api.ShardStatus{{State: "leader", Term: 2, LeaderID: "node-1", AppliedIndex: 7, CommitIndex: 7}},
	}
	three := api.ClusterStatus{
		Mode: "cluster", Cluster: "default/0", NodeID: "node-1", State: "follower", Term: 5, LeaderID: "node-0", Shards: 2, RaftStore: "bolt",
		Nodes: []api.ClusterNode{
			{ID: "node-0", Address: "10.0.0.1:9400", Role: "leader", Voter: true, Connected: true, URL: "http://10.0.0.1:8080", Version: "v1.2.3", ClockOffsetMs: -12},
			{ID: "node-1", Address: "10.0.0.2:9400", Role: "follower", Self: true, Voter: true, Connected: true, URL: "http://10.0.0.2:8080", Version: "v1.2.3", LastContactMs: 431, Lag: 1},
			{ID: "node-2", Address: "10.0.0.3:9400", Role: "learner", LastContactMs: -1, Lag: 12345},
		},
		ShardStatus: []api.ShardStatus{
			{State: "follower", Term: 5, LeaderID: "node-0", AppliedIndex: 12345, CommitIndex: 12346},
			{Shard: 1, State: "leader", Term: 4, LeaderID: "node-1", AppliedIndex: 99, CommitIndex: 99},
		},
	}
	verified := api.Verified{Status: "ok", Shards: []api.VerifiedShard{{AppliedIndex: 8, Files: 2, Bytes: 4096}, {Shard: 1, AppliedIndex: 12345, Files: 11, Bytes: 1 << 30}}}
	at, key := api.Time("2026-11-23T08:00:00Z"), "nightly"
	schedules := []api.Schedule{
		{
			ID: "sched_06H004Y49G3PDM16421P730YBG", Name: "nightly", Queue: "reports", Cron: "0 9 * * mon-fri", Timezone: "Europe/Berlin", NextRun: &at, LastRun: &at, CreatedAt: at,
			UniqueKey: &key, Missed: "once", Jitter: "30s", MaxRetries: 3, Priority: 2, Tags: api.Strings{"b": "2", "a": "1"}, Payload: []byte(`{"kind":"daily"}`),
		},
		{ID: "sched_06H004Y49G3PDM16421P730YBH", Name: "weekly", Queue: "reports", Cron: "@weekly", Timezone: "UTC", Paused: true},
	}
	answered, refused, hostile := 503, "503 Service Unavailable", "\x1b[2Jgone\tand\nmore"
	deliveries := []api.Delivery{
		{ID: "dlv_06H004Y49G3PDM16421P730YBG", Event: "alert_fired", State: api.DeliveryPending, Attempts: 2, LastStatusCode: &answered, LastError: &refused, CreatedAt: at, NextAttemptAt: &at},
		{ID: "dlv_06H004Y49G3PDM16421P730YBH", Event: "test", State: api.DeliveryPending, CreatedAt: at, NextAttemptAt: &at},
	}
	parked := api.Why{
		JobID: "job_06H004Y49G3PDM16421P730YBG", Queue: "summaries", State: "pending", Waiting: true, LastError: &hostile,
		Reasons:  []api.WhyReason{{Reason: "provider_limit", Name: "acme", Message: "as many requests as may be were sent in the last minute", Until: &at}},
		Position: &api.WhyPosition{Gate: "provider:acme", Ahead: 100, AtLeast: true, Of: 250},
	}
	var got strings.Builder
	print := func(command string, show func(io.Writer)) {
		got.WriteString("$ corvo " + command + "\n")
		table := tabwriter.NewWriter(&got, 0, 0, 2, ' ', 0)
		show(table)
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		got.WriteString("\n")
	}
	print("cluster status   # alone", func(w io.Writer) { showCluster(w, alone) })
	print("cluster status   # of three, two shards", func(w io.Writer) { showCluster(w, three) })
	print("cluster remove node-2", func(w io.Writer) { showStatus(w, done("removed")) })
	print("schedules list", func(w io.Writer) { showSchedules(w, schedules) })
	print("schedules get nightly", func(w io.Writer) { showSchedule(w, schedules[0]) })
	print("webhooks deliveries", func(w io.Writer) { showDeliveries(w, deliveries) })
	print("why   # at a gate; what a worker says does not speak to the terminal", func(w io.Writer) { showWhy(w, parked) })
	print("admin verify", func(w io.Writer) { showVerified(w, verified) })

	path := filepath.Join("testdata", "tables.golden")
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the tables have changed; look at the difference and run with -rewrite:\n%s", got.String())
	}
}
