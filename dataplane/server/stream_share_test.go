package server_test

import (
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// The frames of all streams of a key count together as requests. Frames that come too fast wait, and no other
// key does.
func TestFramesCountLikeRequests(t *testing.T) {
	t.Parallel()
	const perSecond, frames = 20, 40
	n := startNode(t, func(c *server.Config) { c.Limits = ratelimit.Limits{PerKey: perSecond} })
	url, worker := n.rpcFront(), tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}}
	mine, other := n.key(worker), n.key(worker)
	began := time.Now()
	done := make(chan string)
	var streams [2]*streamClient
	for i := range streams { // a stream that begins when the key's rate is used up is refused
		streams[i] = n.stream(url, mine)
		exchange(t, streams[i], &workerpb.StreamLifecycleRequest{RequestId: frames})
	}
	for _, s := range streams {
		go func() {
			for i := range frames / 2 {
				if err := s.Send(&workerpb.StreamLifecycleRequest{RequestId: uint64(i), Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}}}); err != nil {
					done <- err.Error()
					return
				}
			}
			for i := range frames / 2 {
				if out, err := s.Receive(); err != nil || out.Error != "" || len(out.EnqueuedJobIds) != 1 {
					done <- fmt.Sprint(i, ": ", out, ", ", err)
					return
				}
			}
			done <- ""
		}()
	}
	exchange(t, n.stream(url, other), &workerpb.StreamLifecycleRequest{RequestId: 1})
	for range 2 {
		if failed := <-done; failed != "" {
			t.Errorf("a frame that is too fast: %s", failed)
		}
	}
	// Two requests began the streams; frames for one second come at once.
	if took, least := time.Since(began), time.Second*(2+frames-perSecond)/perSecond; took < least {
		t.Errorf("%d frames took %v, which is less than %v", frames, took, least)
	}
}

// TestStreamsOfANamespaceAtTheBound checks that one namespace may open at most half of a host's streams, so
// that other namespaces can open streams too.
func TestStreamsOfANamespaceAtTheBound(t *testing.T) {
	t.Parallel()
	a, b := openTenants(t, func(c *server.Config) { c.MaxStreams = 4 })
	n := &node{t: t, server: a.server}
	url := n.rpcFront()
	var last *streamClient
	for range 2 {
		last = n.stream(url, a.key)
		exchange(t, last, &workerpb.StreamLifecycleRequest{RequestId: 9})
	}
	refused := func(key, says string) {
		t.Helper()
		_, err := n.stream(url, key).Receive()
		e := wantRPCError(t, "one more stream", err, api.Overloaded, says)
		equal(t, "the code in the protocol", connect.CodeOf(err), connect.CodeResourceExhausted)
		equal(t, "retry after", e.RetryAfter, server.OverloadRetry)
	}
	refused(a.key, "2 streams of this namespace are open")
	for range 2 {
		exchange(t, n.stream(url, b.key), &workerpb.StreamLifecycleRequest{RequestId: 9})
	}
	refused(b.key, "4 streams are open on this node")
	// When a stream ends, another of its namespace may begin.
	if err := last.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its place is free", func() bool { return a.server.OpenStreams() == 3 })
	exchange(t, n.stream(url, a.key), &workerpb.StreamLifecycleRequest{RequestId: 9})
	a.server.Drain()
	eventually(t, "nothing is kept of namespaces without streams", func() bool {
		return a.server.StreamingNamespaces() == 0 && a.server.OpenStreams() == 0
	})
	for most, want := range map[int64]int64{1: 1, 2: 1, 3: 1, server.DefaultMaxStreams: 2048} {
		if got := server.ShareOf(most); got != want {
			t.Errorf("the share of %d is %d", most, got)
		}
	}
}

// TestFramesOfANamespaceAtTheBound checks that one namespace may have at most half of the frames in progress,
// and that frames of other namespaces are still read.
func TestFramesOfANamespaceAtTheBound(t *testing.T) {
	t.Parallel()
	a, b := openTenants(t, func(c *server.Config) { c.StreamFrames = 2 })
	n := &node{t: t, server: a.server}
	url := n.rpcFront()
	mine, theirs := n.stream(url, a.key), n.stream(url, b.key)
	exchange(t, mine, &workerpb.StreamLifecycleRequest{RequestId: 1})
	exchange(t, theirs, &workerpb.StreamLifecycleRequest{RequestId: 1})
	full := a.server.FramesOf(a.ns)
	if cap(full) != 1 {
		t.Fatalf("a namespace may have %d frames in hand", cap(full))
	}
	full <- struct{}{} // of another stream
	before := a.server.BodyBytes()
	if err := mine.Send(&workerpb.StreamLifecycleRequest{RequestId: 2, Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the frame has been read", func() bool { return a.server.BodyBytes() > before })
	applied := a.cell.Applied()
	if out := exchange(t, theirs, &workerpb.StreamLifecycleRequest{RequestId: 2, Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}}}); len(out.EnqueuedJobIds) != 1 {
		t.Errorf("another namespace's frame: %v", out)
	}
	if a.cell.Applied() != applied {
		t.Error("a frame was begun for which there was no room")
	}
	<-full
	if out, err := mine.Receive(); err != nil || len(out.EnqueuedJobIds) != 1 {
		t.Errorf("%v, %v", out, err)
	}
}
