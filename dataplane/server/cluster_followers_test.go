package server_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// TestAnyNodeTakesWrites checks that each node accepts any write and shows it at once. The other nodes show
// the write to a client that gives the write's position or reads strongly.
func TestAnyNodeTakesWrites(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			members := startPeers(t, shards)
			for i, m := range members {
				for _, queue := range queueOn(shards) {
					id := m.writes(queue)
					var made api.EnqueueResponse
					a := m.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q}`, queue), 201, &made)
					other := members[(i+1)%len(members)]
					other.do("GET", "/api/v1/jobs/"+made.JobID+"?min_index="+url.QueryEscape(a.header.Get(server.IndexHeader)), "", 200, nil)
					members[(i+2)%len(members)].do("GET", "/api/v1/jobs/"+made.JobID+"?consistency=strong", "", 200, nil)
					var page api.SearchResponse
					other.do("POST", "/api/v1/jobs/search?consistency=strong", fmt.Sprintf(`{"job_id_prefix":%q}`, made.JobID), 200, &page)
					if len(page.Jobs) != 1 {
						t.Errorf("a strong search finds %d of 1", len(page.Jobs))
					}
					// One node fetches the job, and another settles it.
					var got api.FetchedJob
					other.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q]}`, queue), 200, &got)
					if got.JobID != made.JobID {
						t.Errorf("fetched %s, want %s", got.JobID, made.JobID)
					}
					m.do("POST", "/api/v1/heartbeat", fmt.Sprintf(`{"jobs":{%q:{"lease_token":%q}}}`, got.JobID, got.LeaseToken), 200, nil)
					m.do("POST", "/api/v1/ack/"+got.JobID, fmt.Sprintf(`{"lease_token":%q}`, got.LeaseToken), 200, nil)
					m.do("GET", "/api/v1/jobs/"+id, "", 200, nil)
				}
			}
		})
	}
}

// writes runs a job's lifecycle at one node and reads each of its own writes.
func (m *peer) writes(queue string) string {
	m.t.Helper()
	id := m.enqueue(queue)
	m.do("GET", "/api/v1/jobs/"+id, "", 200, nil)
	var got api.FetchedJob
	m.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q]}`, queue), 200, &got)
	if got.JobID != id {
		m.t.Errorf("%s fetched %s, want %s", m.id, got.JobID, id)
	}
	m.do("POST", "/api/v1/ack/"+id, fmt.Sprintf(`{"lease_token":%q}`, got.LeaseToken), 200, nil)
	var j api.Job
	m.do("GET", "/api/v1/jobs/"+id, "", 200, &j)
	if j.State != "completed" {
		m.t.Errorf("%s shows its own job as %s", m.id, j.State)
	}
	return id
}

// A poll at a follower gets the job that is enqueued at another node.
func TestAPollAtAFollowerIsWoken(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 1)
	for _, m := range members {
		fetched := make(chan string, 1)
		go func() {
			fetched <- m.poll(`["q"]`).JobID
		}()
		eventually(t, "the poll is parked", func() bool {
			polls, err := m.host.Polls(tenancy.Default)
			return err == nil && polls.Parked == 1
		})
		id := members[0].enqueue("q")
		if got := <-fetched; got != id {
			t.Errorf("%s fetched %s, want %s", m.id, got, id)
		}
	}
}

// When a leader stops, another serves all acknowledged writes, and timers continue, because the duties and
// the outbox run on the leader.
func TestAnotherServesWhenALeaderCloses(t *testing.T) {
	t.Parallel()
	const shards = 2
	members := startPeers(t, shards)
	queues := queueOn(shards)
	var ids []string
	for _, q := range queues {
		ids = append(ids, members[1].enqueue(q))
	}
	members[0].close()
	rest := members[1:]
	for i, m := range rest {
		for k, q := range queues {
			m.do("GET", "/api/v1/jobs/"+ids[k]+"?consistency=strong", "", 200, nil)
			eventually(t, "a write is taken", func() bool {
				return m.send("POST", "/api/v1/enqueue", "", fmt.Sprintf(`{"queue":%q}`, q)).status == 201
			})
		}
		eventually(t, "the node is ready", func() bool { return m.send("GET", "/readyz", "", "").status == 200 })
		due := time.Now().Add(50 * time.Millisecond).UTC().Format(time.RFC3339Nano)
		var later api.EnqueueResponse
		queue := fmt.Sprintf("later%d", i)
		m.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,"scheduled_at":%q}`, queue, due), 201, &later)
		var got api.FetchedJob
		rest[1-i].do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q],"timeout":60}`, queue), 200, &got)
		if got.JobID != later.JobID {
			t.Errorf("fetched %s, want %s", got.JobID, later.JobID)
		}
		id := m.enqueue("here")
		var s api.Status
		m.moveUntilThere(id, onShard(1-i, shards, 5), &s)
		eventually(t, "the job arrives", func() bool { return m.send("GET", "/api/v1/jobs/"+id, "", "").status == 200 })
	}
}

// Without a quorum a member accepts no writes, and its error says when to try again.
func TestWithoutAQuorum(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 1)
	last := members[2]
	last.server.Config().ProposeTimeout, last.server.Config().ReadWait = 100*time.Millisecond, 100*time.Millisecond
	id := members[0].enqueue("q")
	last.do("GET", "/api/v1/jobs/"+id+"?consistency=strong", "", 200, nil)
	members[0].close()
	members[1].close()
	eventually(t, "a write finds no leader", func() bool {
		a := last.send("POST", "/api/v1/enqueue", "", `{"queue":"q"}`)
		p := a.problem(t)
		if p.Details["retryable"] != true || a.header.Get("Retry-After") == "" {
			t.Fatalf("a write: %d %s, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
		}
		return p.Code == api.LeaderUnavailable // it may believe to be the leader at first
	})
	a := last.do("GET", "/api/v1/jobs/"+id+"?consistency=strong", "", 503, nil)
	if p := a.problem(t); p.Details["retryable"] != true || a.header.Get("Retry-After") == "" {
		t.Errorf("a strong read: %s, Retry-After %q", a.body, a.header.Get("Retry-After"))
	}
	last.do("GET", "/api/v1/jobs/"+id, "", 200, nil)
	eventually(t, "it is not ready", func() bool { return last.send("GET", "/readyz", "", "").status == 503 })
	last.do("GET", "/healthz", "", 200, nil)
}
