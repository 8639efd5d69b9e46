package server_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/tenancy"
)

// A follower forwards the ops of frames. If it cannot in time, it answers with the leader's address and has
// done nothing.
func TestStreamAtAFollower(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 1)
	leader, follower := members[0], members[1]
	at := func(patience time.Duration) *streamClient {
		t.Helper()
		s, err := server.New(server.Config{
			Host: follower.host, Namespace: tenancy.Default, Dev: true, Cluster: &fakeCluster{},
			ProposeTimeout: patience, ReadWait: time.Minute, FreshWait: time.Minute, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		n := &node{t: t, server: s}
		return n.stream(n.rpcFront(), "")
	}
	frame := &workerpb.StreamLifecycleRequest{RequestId: 1, Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}}}
	if out := exchange(t, at(time.Minute), frame); out.Error != "" || len(out.EnqueuedJobIds) != 1 {
		t.Fatalf("a frame that is passed on: %v", out)
	}
	hurried := at(time.Nanosecond)
	for range 3 {
		out := exchange(t, hurried, frame)
		equal(t, "error", out.Error, server.NotLeader)
		equal(t, "leader_addr", out.LeaderAddr, "http://"+leader.id)
		equal(t, "enqueued jobs", len(out.EnqueuedJobIds), 0)
		present(t, "retry_after_ms", out.RetryAfterMs)
	}
	var q api.Queue
	leader.do("GET", "/api/v1/queues/q", "", 200, &q)
	if q.Pending != 1 {
		t.Errorf("%d jobs are there, want that of the frame that was done", q.Pending)
	}
}

// A frame of which a part was done, or may have been, is not sent to the leader, because that part would be
// done twice.
func TestFrameThatMayHaveDoneSomethingIsNotPassedOn(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 1)
	follower, err := server.New(server.Config{Host: members[1].host, Namespace: tenancy.Default, Dev: true, Cluster: &fakeCluster{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	shards, err := router.Open(members[1].host, tenancy.Default)
	if err != nil {
		t.Fatal(err)
	}
	none := error(&api.Error{Code: api.LeaderUnavailable, Message: "no leader"})
	unknown := api.Wrap(pipeline.ErrUnknown, api.LeaderUnavailable, "the leader was lost")
	parts := []int{server.PartAcks, server.PartEnqueues, server.PartFetch}
	for _, failing := range parts {
		for _, other := range parts {
			for _, c := range []struct {
				what   string
				err    error
				did    bool
				passed bool
			}{
				{"was not begun", nil, false, true},
				{"found no leader", none, false, true},
				{"may have been done", unknown, false, false},
				{"was done in part", none, true, false},
				{"was done", nil, true, false},
			} {
				if other == failing && c.err == nil {
					continue
				}
				leader := func() string {
					return follower.LeaderFor(shards, server.PartEnd{failing, none, false}, server.PartEnd{other, c.err, c.did})
				}
				name := fmt.Sprintf("part %d found no leader, part %d %s", failing, other, c.what)
				if c.passed { // on a busy machine the follower may not know the leader for a moment
					eventually(t, name+": it is sent", func() bool { return leader() != "" })
				} else if url := leader(); url != "" {
					t.Errorf("%s: it is sent to %q", name, url)
				}
			}
		}
	}
}
