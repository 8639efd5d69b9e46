package view

import (
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// TestRates checks that a minute is sixty seconds, including the current one.
func TestRates(t *testing.T) {
	t.Parallel()
	var r rates
	add := func(queue string, second int64, types ...state.EventType) {
		counts := map[queueSecond]api.Rates{}
		for _, kind := range types {
			countEvent(counts, &state.Event{Type: kind, Queue: queue}, second*int64(time.Second)+1)
		}
		r.add(counts)
	}
	add("q", 1000, evStarted, evCompleted, evCompleted, state.EventType_EVENT_SCHEDULED)
	add("q", 1030, evCompleted, state.EventType_EVENT_RECLAIMED)
	add("q", 1030, state.EventType_EVENT_ENQUEUED)
	add("other", 1030, state.EventType_EVENT_FAILED)
	for _, c := range []struct {
		second int64
		want   api.Rates
	}{
		{999, api.Rates{}}, {1000, api.Rates{Enqueued: 1, Completed: 2}}, {1030, api.Rates{Enqueued: 2, Completed: 3, Failed: 1}},
		{1059, api.Rates{Enqueued: 2, Completed: 3, Failed: 1}}, {1060, api.Rates{Enqueued: 1, Completed: 1, Failed: 1}}, {1090, api.Rates{}},
	} {
		if got := r.of("q", time.Unix(c.second, 0)); got != c.want {
			t.Errorf("at second %d: %+v, want %+v", c.second, got, c.want)
		}
	}
	add("q", 1060, evCompleted) // overwrites second 1000
	add("q", 1000, evCompleted) // comes too late
	if got := r.of("q", time.Unix(1060, 0)); got != (api.Rates{Enqueued: 1, Completed: 2, Failed: 1}) {
		t.Errorf("after a minute: %+v", got)
	}
	add("third", 1200, evCompleted)
	if len(r.queues) != 1 {
		t.Errorf("%d queues are kept in which nothing happened for a minute", len(r.queues)-1)
	}
}
