package engine_test

import (
	"testing"

	"github.com/corvo/corvo/engine"
)

// TestStatusCounts checks that the times of a group start with the process and do not end with the term.
func TestStatusCounts(t *testing.T) {
	t.Parallel()
	n := openNode(t, t.TempDir())
	status := func() engine.Status {
		t.Helper()
		s, err := n.Status()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := status()
	for range 3 {
		n.add(t, "k")
	}
	after := status()
	if got := after.QueueTime.Count() - before.QueueTime.Count(); got != 3 {
		t.Errorf("%d ops waited, want 3", got)
	}
	if got := after.ApplyTime.Count() - before.ApplyTime.Count(); got != 3 {
		t.Errorf("%d entries were applied, want 3", got)
	}
	if after.ApplyTime.Mean() <= 0 || after.Refused != 0 {
		t.Errorf("entries took %v, %d ops were refused", after.ApplyTime.Mean(), after.Refused)
	}
	n.shut(t) // ends the term
	if got := status(); got.ApplyTime != after.ApplyTime || got.QueueTime != after.QueueTime {
		t.Errorf("after the term's end: %+v, was %+v", got, after)
	}
}
