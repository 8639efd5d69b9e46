package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// TestHoldings has a worker with jobs of two queues, a worker whose job is completed, and a job without a
// worker.
func TestHoldings(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	a, b, c, d, e := h.enqueue("q", 1)[0], h.enqueue("p", 1)[0], h.enqueue("q", 1)[0], h.enqueue("q", 1)[0], h.enqueue("q", 1)[0]
	h.fetch(a, "w")
	h.fetch(b, "w")
	h.fetch(c, "gone")
	h.fetch(d, "w")
	h.fetch(e, "")
	h.ack(c, "")
	h.commit(func(tx *state.Tx) {
		h.edit(tx, a, func(tx *state.Tx, j *job.Job) { j.Lease.ExpiresNs = tx.ClockNs() + 60e9 }, evRenewed)
	})
	h.settle()
	got, err := h.view.Holdings(context.Background())
	must(t, err)
	slices.SortFunc(got, func(a, b Holding) int { return cmp.Compare(a.Queue, b.Queue) })
	want := []Holding{
		{WorkerID: "w", Hostname: "host-w", Queue: "p", Active: 1, StartedNs: 7e6, RenewedNs: 7e6},
		{WorkerID: "w", Hostname: "host-w", Queue: "q", Active: 2, StartedNs: 6e6, RenewedNs: 12e6},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if plan := h.shell("EXPLAIN QUERY PLAN " + heldSQL); !strings.Contains(plan, "hot_by_rare_state") {
		t.Errorf("all jobs are read for it: %s", plan)
	}
}
