package chaos

import (
	"strings"
	"testing"
)

// TestHistory gives the checker every kind of broken guarantee, and histories that only
// look broken.
func TestHistory(t *testing.T) {
	t.Parallel()
	enq := step{what: enqueued, known: true}
	fetch := step{what: fetched, known: true}
	ack := step{what: acked, known: true}
	read := func(state string) step { return step{what: looked, known: true, state: state} }
	for _, c := range []struct {
		name  string
		steps []step
		good  bool
	}{
		{"a life", []step{enq, read("pending"), fetch, read("active"), ack, read("completed")}, true},
		{"an enqueue whose answer was lost", []step{fetch, ack}, true},
		{"a fetch whose answer was lost", []step{enq, read("active"), read("pending"), fetch, ack}, true},
		{"an ack whose answer was lost and its repeat", []step{enq, fetch, {what: acked}, read("completed"), ack}, true},
		{"an ack that never came", []step{enq, fetch, {what: acked}, read("active")}, true},
		{"a lost enqueue", []step{enq, read("completed")}, false},
		{"an ack undone", []step{enq, fetch, ack, read("active")}, false},
		{"a stale read", []step{enq, fetch, read("pending")}, false},
		{"a second delivery", []step{enq, fetch, fetch}, false},
		{"done before it was given out", []step{enq, read("completed"), fetch, ack}, false},
	} {
		h := newHistory()
		for _, s := range c.steps {
			h.add("job", 1, h.now(), s)
		}
		bad := h.Linearizable()
		if good := len(bad) == 0; good != c.good {
			t.Errorf("%s: linearizable %v, want %v: %s", c.name, good, c.good, strings.Join(bad, "\n"))
		}
	}
}

// TestDeliveries expects that no second worker receives a job while its lease lasts.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	h := newHistory()
	h.deliver("a", "w1")
	h.deliver("b", "w1")
	if len(h.wrong) != 0 {
		t.Fatalf("nothing is wrong yet: %v", h.wrong)
	}
	h.deliver("a", "w2")
	if len(h.wrong) != 1 {
		t.Fatalf("job a was leased twice at once: %v", h.wrong)
	}
}
