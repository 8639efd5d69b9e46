package server_test

import (
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// A client with WithKeyedWrites renews and settles jobs of several shards, because neither request carries an
// Idempotency-Key, which works on one shard only.
func TestKeyedClientSettlesJobsOfSeveralShards(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	c, err := client.New(n.url, n.admin, client.WithKeyedWrites())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	queues := queueOn(2)
	for _, q := range queues {
		if _, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: q, Agent: &api.Agent{}}); err != nil {
			t.Fatal(err)
		}
	}
	none, two := 0, 2
	jobs, err := c.FetchBatch(t.Context(), api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: queues, Timeout: &none}, Count: &two})
	if err != nil || len(jobs) != 2 {
		t.Fatalf("fetched %d jobs: %v", len(jobs), err)
	}
	beat := api.HeartbeatRequest{Jobs: map[string]*api.HeartbeatJob{}}
	var acks []api.AckItem
	for _, j := range jobs {
		beat.Jobs[j.JobID] = &api.HeartbeatJob{LeaseToken: j.LeaseToken, Usage: &api.ReportedUsage{InputTokens: 1}}
		acks = append(acks, api.AckItem{JobID: j.JobID, AckRequest: api.AckRequest{LeaseToken: j.LeaseToken, AgentStatus: api.AgentContinue}})
	}
	renewed, err := c.Heartbeat(t.Context(), beat)
	if err != nil || len(renewed.Acked) != 2 {
		t.Errorf("a heartbeat with usage: %+v, %v", renewed, err)
	}
	settled, err := c.AckBatch(t.Context(), acks)
	if err != nil || settled.Acked != 2 {
		t.Errorf("acks that continue: %+v, %v", settled, err)
	}
}
