package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// A frame acks, enqueues and fetches in this order, and its answer lists the refused parts.
func TestStreamFrames(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	s := n.stream(n.rpcFront(), n.admin)
	if h := s.ResponseHeader(); h.Get("X-Request-Id") == "" {
		t.Errorf("headers %v came before the first frame", h)
	}
	// A frame fetches the jobs that it enqueues.
	out := exchange(t, s, &workerpb.StreamLifecycleRequest{RequestId: 1, Queues: []string{"q"}, WorkerId: "w", FetchCount: 10, Enqueues: []*workerpb.EnqueueRequest{
		{Queue: "q", PayloadJson: `{"i":0}`, OptionsJson: `{"unique_key":"u"}`}, {Queue: "q", PayloadJson: `{"i":1}`},
	}})
	if out.Error != "" || len(out.Jobs) != 2 || len(out.EnqueuedJobIds) != 2 {
		t.Fatalf("%v", out)
	}
	equal(t, "the first job", out.Jobs[0].JobId, out.EnqueuedJobIds[0])
	equal(t, "the second payload", out.Jobs[1].PayloadJson, `{"i":1}`)
	first, second := out.Jobs[0], out.Jobs[1]
	// An ack frees the unique key that an enqueue of the same frame takes. A refused ack does not fail the
	// frame.
	out = exchange(t, s, &workerpb.StreamLifecycleRequest{RequestId: 2, WorkerId: "w",
		Acks:     []*workerpb.AckBatchItem{{JobId: first.JobId, LeaseToken: first.LeaseToken, Usage: &workerpb.UsageReport{CostUsdExact: "0.000000001"}}, {JobId: "nonsense"}, {JobId: second.JobId, LeaseToken: first.LeaseToken}},
		Enqueues: []*workerpb.EnqueueRequest{{Queue: "q", OptionsJson: `{"unique_key":"u"}`}},
	})
	if out.Error != "" || len(out.AckErrors) != 2 || len(out.EnqueuedJobIds) != 1 {
		t.Fatalf("%v", out)
	}
	equal(t, "acked", out.Acked, 1)
	if out.EnqueuedJobIds[0] == first.JobId {
		t.Errorf("the enqueue returns the job %s, whose ack freed the unique key", first.JobId)
	}
	if doc, err := n.client(n.admin).Job(t.Context(), first.JobId, client.Read{}); err != nil || doc.State != "completed" || doc.CostUSD != 1 {
		t.Errorf("%+v, %v", doc, err)
	}
	// The worker's name alone proves its lease, another's does not.
	out = exchange(t, s, &workerpb.StreamLifecycleRequest{RequestId: 3, WorkerId: "other", Acks: []*workerpb.AckBatchItem{{JobId: second.JobId}}})
	if out.Acked != 0 || len(out.AckErrors) != 1 || out.AckErrors[0].Code != string(api.LeaseLost) {
		t.Errorf("%v", out)
	}
	out = exchange(t, s, &workerpb.StreamLifecycleRequest{RequestId: 4, WorkerId: "w", Acks: []*workerpb.AckBatchItem{{JobId: second.JobId}}})
	if out.Acked != 1 {
		t.Errorf("%v", out)
	}
	// Enqueues are all or none, and a refused frame has no effect.
	before := n.cell.Applied()
	for i, bad := range []*workerpb.StreamLifecycleRequest{
		{Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}, {Queue: "no queue"}}},
		{Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}, {Queue: "q", PayloadJson: "{"}}},
		{Enqueues: []*workerpb.EnqueueRequest{{Queue: "q", OptionsJson: `{"queue":"q"}`}}},
		{FetchCount: 1}, {FetchCount: -1, Queues: []string{"q"}},
		{Acks: make([]*workerpb.AckBatchItem, 1001)},
	} {
		bad.RequestId = uint64(10 + i)
		if out := exchange(t, s, bad); !strings.HasPrefix(out.Error, "VALIDATION_ERROR: ") || len(out.EnqueuedJobIds)+len(out.Jobs) > 0 {
			t.Errorf("%d: %v", i, out)
		}
	}
	if n.cell.Applied() != before {
		t.Error("refused frames were logged")
	}
	if err := s.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Receive(); out != nil || !errors.Is(err, context.Canceled) && connect.CodeOf(err) != connect.CodeUnknown {
		t.Errorf("the end: %v, %v", out, err)
	}
}

// Frames that are sent ahead are answered in order, and their jobs are in the order of the frames.
func TestStreamPipelines(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	s := n.stream(n.rpcFront(), n.admin)
	const frames, size = 60, 8
	sent := make(chan error, 1)
	go func() {
		for i := range frames {
			m := &workerpb.StreamLifecycleRequest{RequestId: uint64(i)}
			for k := range size {
				m.Enqueues = append(m.Enqueues, &workerpb.EnqueueRequest{Queue: "q", PayloadJson: fmt.Sprint(i*size + k)})
			}
			if err := s.Send(m); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range frames {
		out, err := s.Receive()
		if err != nil || out.RequestId != uint64(i) || len(out.EnqueuedJobIds) != size {
			t.Fatalf("answer %d: %v, %v", i, out, err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	next := 0
	for next < frames*size {
		out := exchange(t, s, &workerpb.StreamLifecycleRequest{Queues: []string{"q"}, FetchCount: 100})
		for _, j := range out.Jobs {
			if j.PayloadJson != fmt.Sprint(next) {
				t.Fatalf("job %d is %s", next, j.PayloadJson)
			}
			next++
		}
	}
}

// A frame waits for work before it gets an empty answer.
func TestStreamWaits(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	s := n.stream(n.rpcFront(), n.admin)
	start := time.Now()
	if out := exchange(t, s, &workerpb.StreamLifecycleRequest{Queues: []string{"q"}, FetchCount: 1}); len(out.Jobs) != 0 || out.Error != "" {
		t.Errorf("%v", out)
	}
	if waited := time.Since(start); waited < server.StreamWait {
		t.Errorf("an empty answer came after %v", waited)
	}
}

// TestStreamRights checks that a stream whose key is revoked ends with the reason, and that a frame with a
// part that the key does not permit gets FORBIDDEN while the stream goes on.
func TestStreamRights(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}, QueueScope: []tenancy.Glob{"mine.*"}})
	s := n.stream(url, key)
	for i, bad := range []*workerpb.StreamLifecycleRequest{
		{Enqueues: []*workerpb.EnqueueRequest{{Queue: "mine.a"}, {Queue: "theirs"}}}, {Queues: []string{"mine.a", "theirs"}, FetchCount: 1},
	} {
		if out := exchange(t, s, bad); !strings.HasPrefix(out.Error, "FORBIDDEN: ") {
			t.Errorf("%d: %v", i, out)
		}
	}
	if out := exchange(t, s, &workerpb.StreamLifecycleRequest{Enqueues: []*workerpb.EnqueueRequest{{Queue: "mine.a"}}}); out.Error != "" {
		t.Errorf("%v", out)
	}
	n.revoke(key)
	if out, err := s.Receive(); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("after its key was revoked: %v, %v", out, err)
	}
}

// A node that shuts down answers the frames that have begun and asks its streams to open elsewhere.
func TestStreamDrains(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	s := n.stream(n.rpcFront(), n.admin)
	exchange(t, s, &workerpb.StreamLifecycleRequest{RequestId: 1, Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}}})
	n.server.Drain()
	if out, err := s.Receive(); connect.CodeOf(err) != connect.CodeUnavailable || rpc.FromError(err).RetryAfter == 0 {
		t.Errorf("%v, %v", out, err)
	}
}

// At most the maximum number of streams may be open.
func TestStreamsAtTheBound(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.MaxStreams = 2 })
	url := n.rpcFront()
	for range 2 {
		exchange(t, n.stream(url, n.admin), &workerpb.StreamLifecycleRequest{RequestId: 9})
	}
	_, err := n.stream(url, n.admin).Receive()
	if e := rpc.FromError(err); connect.CodeOf(err) != connect.CodeResourceExhausted || e.Code != api.Overloaded || e.RetryAfter != server.OverloadRetry {
		t.Errorf("one more: %v", err)
	}
	if server.DefaultMaxStreams != 4096 || server.DefaultStreamFrames != 2048 || server.DefaultStreamRate != 500 {
		t.Error("the bounds are not those of the contract")
	}
}

// A frame waits until there is room.
func TestStreamFramesAtTheBound(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.StreamFrames = 1 })
	s := n.stream(n.rpcFront(), n.admin)
	n.server.Frames() <- struct{}{} // of another stream
	if err := s.Send(&workerpb.StreamLifecycleRequest{RequestId: 1, Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the frame has been read", func() bool { return n.server.BodyBytes() > 0 })
	before := n.cell.Applied()
	<-n.server.Frames()
	if out, err := s.Receive(); err != nil || len(out.EnqueuedJobIds) != 1 || n.cell.Applied() == before {
		t.Errorf("%v, %v", out, err)
	}
	eventually(t, "nothing is in hand", func() bool { return n.server.BodyBytes() == 0 && len(n.server.Frames()) == 0 })
}
