package cell

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
)

// While starts are held a queue has nothing to claim, and the leader refuses a fetch that was proposed all the same.
// Enqueues, acks and heartbeats pass. NotifyReady tells of the jobs once starts are no longer held.
func TestHeldStarts(t *testing.T) {
	t.Parallel()
	var held atomic.Bool
	ready := make(chan int, 100)
	c := openTest(t, Config{StartsHeld: held.Load, OnReady: func(_ string, n int) { ready <- n }})
	enqueue(t, c, "q", nil, time.Time{})
	<-ready
	active := fetch(t, c, "q", time.Minute)
	if len(active) != 1 {
		t.Fatalf("%d jobs start before the hold", len(active))
	}
	held.Store(true)
	enqueue(t, c, "q", nil, time.Time{})
	if n, _ := c.Claim([]string{"q"}, 1); n != 0 || c.Claimable([]string{"q"}) {
		t.Error("a job may be claimed while starts are held")
	}
	proof := &op.LeaseProof{Id: active[0].Id, Token: active[0].LeaseToken}
	_, _, err := Propose[*op.FetchResult](t.Context(), c, &op.Fetch{Meta: &op.Meta{LeaseSeed: c.LeaseSeed()}, Queues: []string{"q"}, Count: 1, LeaseMs: 60_000})
	if api.CodeOf(err) != api.Overloaded || !api.CodeOf(err).Retryable() {
		t.Errorf("a fetch from another host: %v, want %s", err, api.Overloaded)
	}
	if _, _, err := Propose[*op.HeartbeatResult](t.Context(), c, &op.Heartbeat{Items: []*op.HeartbeatItem{{Proof: proof}}}); err != nil {
		t.Errorf("a heartbeat: %v", err)
	}
	if _, _, err := Propose[*op.AckResult](t.Context(), c, &op.Ack{Items: []*op.AckItem{{Proof: proof}}}); err != nil {
		t.Errorf("an ack: %v", err)
	}
	if len(ready) != 0 {
		t.Errorf("%d polls were woken during the hold", len(ready))
	}
	held.Store(false)
	c.NotifyReady("q")
	if n := <-ready; n != 1 {
		t.Errorf("%d jobs are ready after the hold, want 1", n)
	}
	if n, release := c.Claim([]string{"q"}, 1); n != 1 {
		t.Error("no job may be claimed after the hold")
	} else {
		release()
	}
}
