package server

import (
	"testing"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// The sum of the queues without series of their own never shrinks when queues come and go, because Prometheus
// would take that for a restart.
func TestOtherTotalsNeverShrink(t *testing.T) {
	t.Parallel()
	var o otherTotals
	queue := func(name string, enqueued, completed uint64) *state.Queue {
		return &state.Queue{Name: name, Enqueued: enqueued, Completed: completed}
	}
	if _, found := o.add("ns_1", nil); found {
		t.Error("a sum of no queues")
	}
	for i, step := range []struct {
		queues              []*state.Queue
		enqueued, completed uint64
	}{
		{[]*state.Queue{queue("a", 10, 4), queue("b", 5, 5)}, 15, 9},
		{[]*state.Queue{queue("a", 12, 6), queue("b", 5, 5)}, 17, 11},
		{[]*state.Queue{queue("b", 6, 5)}, 18, 11},                   // a is deleted
		{[]*state.Queue{queue("a", 1, 1), queue("b", 6, 5)}, 19, 12}, // and is there again
		{[]*state.Queue{queue("a", 1, 1), queue("b", 2, 0)}, 21, 12}, // b was deleted and is there again
		{nil, 21, 12}, // they have series of their own now
	} {
		if sum, found := o.add("ns_1", step.queues); !found || sum[0] != step.enqueued || sum[2] != step.completed {
			t.Errorf("step %d: %v, want %d and %d", i, sum, step.enqueued, step.completed)
		}
	}
	o.keep(func(tenancy.NamespaceID) bool { return false })
	if _, found := o.add("ns_1", nil); found {
		t.Error("a closed namespace is kept in memory")
	}
}
