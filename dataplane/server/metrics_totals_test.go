package server_test

import (
	"fmt"
	"testing"
)

// total returns the series of a queue's total.
func total(queue, event string) string {
	return fmt.Sprintf("corvo_jobs_total{event=%q,queue=%q}", event, queue)
}

// The totals of jobs and of the engine count each event once.
func TestTotalsOfJobsAndTheEngine(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.figures()
	n.enqueuesAtOnce("q", 5)
	c := n.client(n.admin)
	done := n.one(c, "q")
	n.ok(nil, "POST", "/ack/"+done.JobID, `{"lease_token":"`+done.LeaseToken+`"}`)
	n.ok(nil, "POST", "/enqueue", `{"queue":"dies","max_retries":1}`)
	var doomed struct {
		JobID      string `json:"job_id"`
		LeaseToken string `json:"lease_token"`
	}
	n.ok(&doomed, "POST", "/fetch", `{"queues":["dies"],"worker_id":"w"}`)
	n.ok(nil, "POST", "/fail/"+doomed.JobID, `{"error":"e","lease_token":"`+doomed.LeaseToken+`"}`)
	id := n.enqueue("stops")
	n.ok(nil, "POST", "/jobs/"+id+"/cancel", "")
	after := n.figures()
	for series, want := range map[string]float64{
		total("q", "enqueued"): 6, total("q", "started"): 1, total("q", "completed"): 1, total("q", "failed"): 0, total("q", "dead"): 0, // one makes a job, too
		total("dies", "enqueued"): 1, total("dies", "started"): 1, total("dies", "completed"): 0, total("dies", "failed"): 1, total("dies", "dead"): 1,
		total("stops", "enqueued"): 1, total("stops", "started"): 0, total("stops", "cancelled"): 1,
	} {
		if got, ok := after[series]; !ok || got != want {
			t.Errorf("%s is %v (published: %v), want %v", series, got, ok, want)
		}
	}
	const shard = `{shard="0"}`
	// Nine writes of one client in a row are nine ops in at least nine entries.
	for _, name := range []string{"corvo_raft_log_syncs_total", "corvo_raft_log_entries_total", "corvo_pipeline_ops_total"} {
		if grew := after[name+shard] - before[name+shard]; grew < 9 {
			t.Errorf("%s grew by %v", name, grew)
		}
	}
	if grew := after["corvo_raft_log_appended_bytes_total"+shard] - before["corvo_raft_log_appended_bytes_total"+shard]; grew < 9*20 {
		t.Errorf("%v bytes were appended", grew)
	}
	if after["corvo_pipeline_forwarded_ops_total"+shard] != 0 {
		t.Errorf("a node alone forwarded %v", after["corvo_pipeline_forwarded_ops_total"+shard])
	}
	n.ok(nil, "POST", "/admin/snapshot", "")
	if grew := n.figures()["corvo_raft_snapshots_total"+shard] - after["corvo_raft_snapshots_total"+shard]; grew != 1 {
		t.Errorf("%v snapshots", grew)
	}
}

// Every member of a cluster shows the same totals of jobs, and its own totals of the engine.
func TestTotalsOfAFollower(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 1)
	for _, m := range members {
		m.enqueue("mail")
	}
	var forwarded float64
	for _, m := range members {
		eventually(t, "all jobs are counted", func() bool { return m.figures()[total("mail", "enqueued")] == float64(len(members)) })
		figures := m.figures()
		forwarded += figures[`corvo_pipeline_forwarded_ops_total{shard="0"}`]
		if figures[`corvo_raft_log_entries_total{shard="0"}`] == 0 {
			t.Error("a member has written nothing to its log")
		}
	}
	if forwarded < float64(len(members)-1) {
		t.Errorf("%v ops were forwarded, of %d members two follow", forwarded, len(members))
	}
}
