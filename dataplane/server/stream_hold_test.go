package server_test

import (
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/tenancy"
)

// While starts are held, the frames of a stream ack and enqueue without an error, and get no jobs. The next frame after the
// hold gets them.
func TestStreamWhileStartsAreHeld(t *testing.T) {
	t.Parallel()
	var held atomic.Bool
	n := startNodeOn(t, host.Config{StartsHeld: func(tenancy.NamespaceID) bool { return held.Load() }}, nil)
	s := n.stream(n.rpcFront(), n.admin)
	enqueues := []*workerpb.EnqueueRequest{{Queue: "q"}}
	out := exchange(t, s, &workerpb.StreamLifecycleRequest{RequestId: 1, Queues: []string{"q"}, WorkerId: "w", FetchCount: 1, Enqueues: enqueues})
	if out.Error != "" || len(out.Jobs) != 1 {
		t.Fatalf("before the hold: %v", out)
	}
	held.Store(true)
	out = exchange(t, s, &workerpb.StreamLifecycleRequest{RequestId: 2, Queues: []string{"q"}, WorkerId: "w", FetchCount: 1, Enqueues: enqueues,
		Acks: []*workerpb.AckBatchItem{{JobId: out.Jobs[0].JobId, LeaseToken: out.Jobs[0].LeaseToken}}})
	if out.Error != "" || len(out.Jobs) != 0 || out.Acked != 1 || len(out.EnqueuedJobIds) != 1 {
		t.Errorf("during the hold: %v", out)
	}
	held.Store(false)
	out = exchange(t, s, &workerpb.StreamLifecycleRequest{RequestId: 3, Queues: []string{"q"}, WorkerId: "w", FetchCount: 1})
	if out.Error != "" || len(out.Jobs) != 1 {
		t.Errorf("after the hold: %v", out)
	}
}
