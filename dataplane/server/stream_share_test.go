package server

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/tenancy"
)

// The frames of all streams of a key count together as requests. Frames that come too fast wait, and no other
// key does.
func TestFramesCountLikeRequests(t *testing.T) {
	t.Parallel()
	const perSecond, frames = 20, 40
	n := startNode(t, func(c *Config) { c.Limits = ratelimit.Limits{PerKey: perSecond} })
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

// Asking for the rate and the room of a frame allocates nothing.
func TestFramesWaitWithoutMemory(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Limits = ratelimit.Limits{PerKey: ratelimit.MaxRate, PerAddress: ratelimit.MaxRate} })
	who := tenancy.Principal{KeyID: keyID(n.admin)}
	rate, in := n.server.keyRateOf(httptest.NewRequest("POST", "/", nil), who), room{make(chan struct{}, 1), n.server.frames}
	if rate.limits == nil {
		t.Fatal("the limits do not hold for streams")
	}
	allocated := testing.AllocsPerRun(100, func() {
		if rate.next() != 0 || !in.take(nil) {
			t.Fatal("there is room, and it waits")
		}
		in.give()
	})
	if allocated != 0 {
		t.Errorf("a frame allocates %v times before it is begun", allocated)
	}
}

// One namespace of a host may open at most half of its streams, so that the others stay free.
func TestStreamsOfANamespaceAtTheBound(t *testing.T) {
	t.Parallel()
	a, b := openTenants(t)
	a.server.streams.most = 4
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
		equal(t, "retry after", e.RetryAfter, overloadRetry)
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
	eventually(t, "its place is free", func() bool { return a.server.streams.used.Load() == 3 })
	exchange(t, n.stream(url, a.key), &workerpb.StreamLifecycleRequest{RequestId: 9})
	a.server.Drain()
	eventually(t, "nothing is kept of namespaces without streams", func() bool {
		a.server.shares.mu.Lock()
		defer a.server.shares.mu.Unlock()
		return len(a.server.shares.of) == 0 && a.server.streams.used.Load() == 0
	})
	for most, want := range map[int64]int64{1: 1, 2: 1, 3: 1, DefaultMaxStreams: 2048} {
		if got := shareOf(most); got != want {
			t.Errorf("the share of %d is %d", most, got)
		}
	}
}

// One namespace may have at most half of the frames in progress, and those of others are still read.
func TestFramesOfANamespaceAtTheBound(t *testing.T) {
	t.Parallel()
	a, b := openTenants(t)
	a.server.cfg.StreamFrames, a.server.frames = 2, make(chan struct{}, 2)
	n := &node{t: t, server: a.server}
	url := n.rpcFront()
	mine, theirs := n.stream(url, a.key), n.stream(url, b.key)
	exchange(t, mine, &workerpb.StreamLifecycleRequest{RequestId: 1})
	exchange(t, theirs, &workerpb.StreamLifecycleRequest{RequestId: 1})
	a.server.shares.mu.Lock()
	full := a.server.shares.of[a.ns].frames
	a.server.shares.mu.Unlock()
	if cap(full) != 1 {
		t.Fatalf("a namespace may have %d frames in hand", cap(full))
	}
	full <- struct{}{} // of another stream
	before := a.server.bodies.used.Load()
	if err := mine.Send(&workerpb.StreamLifecycleRequest{RequestId: 2, Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the frame has been read", func() bool { return a.server.bodies.used.Load() > before })
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
