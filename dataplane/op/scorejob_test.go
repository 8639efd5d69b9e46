package op_test

import (
	"slices"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state/event"
)

// TestEachScoreHasItsEvent scores a job several times in one entry and once more in a later one. Each event
// shows its own score, also after the score was replaced.
func TestEachScoreHasItsEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.leased("q", 1)[0]
	score := func(dimension string, value float64) op.Op {
		return &op.ScoreJob{JobId: l.Id, Score: &job.Score{Dimension: dimension, Value: value, Scorer: "s"}}
	}
	before := w.store.Head().FeedNextSeq
	w.apply(score("tone", 0.25), score("facts", 0.5), score("tone", 0.75))
	w.apply(score("tone", 1))

	v := w.store.Snapshot()
	defer v.Close()
	var got []string
	for fed, err := range v.Feed(before) {
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range fed.Entry.Events {
			told, ok, err := event.Compose(v, fed.FirstSeq+uint64(i), fed.Entry.ClockNs, e)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				got = append(got, string(told.Data))
			}
		}
	}
	want := []string{
		`{"dimension":"tone","value":0.25,"scorer":"s"}`,
		`{"dimension":"facts","value":0.5,"scorer":"s"}`,
		`{"dimension":"tone","value":0.75,"scorer":"s"}`,
		`{"dimension":"tone","value":1,"scorer":"s"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
	w.checkReplica()
}
