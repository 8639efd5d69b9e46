package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/transporttest"
	"github.com/corvo/corvo/tenancy"
)

// peer is a node of a cluster in this process.
type peer struct {
	*node
	id        string
	host      *host.Host
	transport *transport.Transport
	closed    bool
}

// startPeers opens three nodes that are members of every shard of one namespace.
func startPeers(t *testing.T, shards int) []*peer {
	t.Helper()
	names := []string{"a", "b", "c"}
	identities := transporttest.Identities(names...)
	var members []*peer
	var join []entry.Incarnation
	for _, id := range names {
		m := startPeer(t, id, identities[id], host.Spec{Shards: shards, Join: join})
		if join == nil {
			m.ready()
			for _, c := range m.cells() {
				s, err := c.Status()
				if err != nil {
					t.Fatal(err)
				}
				join = append(join, s.Engine.Incarnation)
			}
		} else {
			for _, c := range members[0].cells() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if err := errors.Join(c.Engine().AddLearner(ctx, id, m.transport.Address()), c.Engine().Promote(ctx, id)); err != nil {
					t.Fatal(err)
				}
				cancel()
			}
			m.ready()
		}
		members = append(members, m)
	}
	return members
}

func startPeer(t *testing.T, id string, identity transport.Identity, spec host.Spec) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	m := &peer{id: id}
	if m.transport, err = transport.Open(transport.Config{NodeID: id, Listener: listener, Identity: identity, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m.host, err = host.Open(host.Config{DataDir: dir, NodeID: id, Logger: logger, Engine: engine.Tuning{
		Transport: m.transport, SegmentBytes: raftlog.MinSegmentBytes,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.host.Add(ctx, tenancy.Default, spec); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Host: m.host, Namespace: tenancy.Default, Version: "test", Dev: true, ProposeTimeout: time.Minute, ReadWait: time.Minute, FreshWait: time.Minute, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(s)
	t.Cleanup(func() { s.Drain(); front.Close() })
	m.node = &node{t: t, server: s, dir: dir, url: front.URL}
	return m
}

func (m *peer) cells() []*cell.Cell {
	m.t.Helper()
	cells, err := m.host.Cells(tenancy.Default)
	if err != nil {
		m.t.Fatal(err)
	}
	return cells
}

func (m *peer) ready() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	if err := m.host.Ready(ctx, tenancy.Default); err != nil {
		m.t.Fatal(err)
	}
}

func (m *peer) close() {
	if m.closed {
		return
	}
	m.closed = true
	if err := errors.Join(m.host.Close(context.Background()), m.transport.Close()); err != nil {
		m.node.t.Errorf("close %s: %v", m.id, err)
	}
}

// Each node accepts any write and shows it at once. The others show it to a client that asks for its position
// or reads strongly.
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
					other.do("GET", "/api/v1/jobs/"+made.JobID+"?min_index="+url.QueryEscape(a.header.Get(indexHeader)), "", 200, nil)
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
	last.server.cfg.ProposeTimeout, last.server.cfg.ReadWait = 100*time.Millisecond, 100*time.Millisecond
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
