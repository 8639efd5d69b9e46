package op_test

import (
	"slices"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// reasonsAtGate returns the reasons of the job at p's gate at a time. Exactly one job must wait there.
func (w *world) reasonsAtGate(nowNs int64) (reasons []op.Reason) {
	w.t.Helper()
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	ids, err := snapshot.AtGate(job.Gate_GATE_PROVIDER, "p", 10)
	if err != nil || len(ids) != 1 {
		w.t.Fatalf("%d jobs wait at the gate, want 1 (%v)", len(ids), err)
	}
	j, err := snapshot.Job(ids[0])
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := op.Explain(op.NewSnapshotState(snapshot, w.store.ResourceIndex(), nowNs), j)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, why := range all {
		reasons = append(reasons, why.Reason)
	}
	return reasons
}

// A job at a gate has the reasons of its queue and of its fairness key as well, because OpenGate moves it only into
// its lane. While one of them keeps it, no answer promises that it starts soon.
func TestReasonsBehindAGate(t *testing.T) {
	t.Parallel()
	rule := func(w *world, r *state.LimitRule) {
		r.Queue, r.Key = "q", "k"
		w.apply(w.rule(r))
	}
	for name, c := range map[string]struct {
		limit func(w *world)
		keeps []op.Reason
	}{
		"no other limit": {func(*world) {}, nil},
		"paused key":     {func(w *world) { rule(w, &state.LimitRule{Paused: true}) }, []op.Reason{op.ReasonKeyPaused}},
		"full key":       {func(w *world) { rule(w, &state.LimitRule{MaxConcurrency: 1}) }, []op.Reason{op.ReasonKeyConcurrency}},
		"paused queue":   {func(w *world) { paused := true; w.apply(&op.SetQueue{Queue: "q", Paused: &paused}) }, []op.Reason{op.ReasonQueuePaused}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(w.putProvider("p", &state.Provider{Requests: 1}))
			o := w.jobsFor("p", "q", 2)
			for _, nj := range o.Jobs {
				nj.FairnessKey = "k"
			}
			w.apply(o)
			if got := one[*op.FetchResult](w, w.fetch("q", 100)).Jobs; len(got) != 1 {
				t.Fatalf("%d jobs went through the gate, want 1", len(got))
			}
			c.limit(w)
			closed := append(slices.Clone(c.keeps), op.ReasonProvider)
			if got := w.reasonsAtGate(w.clockNs); !slices.Equal(got, closed) {
				t.Errorf("gate closed: reasons %v, want %v", got, closed)
			}
			open := c.keeps
			if len(open) == 0 {
				open = []op.Reason{op.ReasonReopened}
			}
			if got := w.reasonsAtGate(w.clockNs + int64(10*time.Minute)); !slices.Equal(got, open) {
				t.Errorf("gate open: reasons %v, want %v", got, open)
			}
		})
	}
}
