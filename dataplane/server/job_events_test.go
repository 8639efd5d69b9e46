package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/corvo/corvo/api"
)

// TestJobEventsTellOfEarlierAttempts reads the history of a job whose attempts have all ended: one was given
// back, so its number was used again, and two failed.
func TestJobEventsTellOfEarlierAttempts(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	id := n.enqueued(`{"queue":"mail","max_retries":3,"retry_backoff":"exponential","retry_base_delay":"2ms","retry_jitter_percent":50}`)
	next := map[int]api.Time{} // as the answers to the failures said
	for i, reason := range []string{api.WorkerShutdown, "boom", "bang", "worse"} {
		f, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"mail"}, WorkerID: fmt.Sprintf("w%d", i)})
		if err != nil || f == nil || f.JobID != id {
			t.Fatalf("fetch %d: %+v, %v", i, f, err)
		}
		a, err := c.Fail(ctx, id, api.FailRequest{Error: reason, LeaseToken: f.LeaseToken})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			next[a.Attempt] = a.NextAttemptAt
		}
		want := []string{
			"enqueued 0 ", "started 1 ", "returned 0 ", // it left no error that would name the worker
			"started 1 w1", "failed 1 w1 next", "retrying 1  next",
			"started 2 w2", "failed 2 w2 next", "retrying 2  next",
			"started 3 w3", "failed 3 w3", "dead 3 ",
		}[:3*(i+1)]
		if got := n.timeline(id, next); !slices.Equal(got, want) {
			t.Errorf("after failure %d:\n%q\nwant\n%q", i, got, want)
		}
	}
	// A retry by hand removes the errors, and counts attempts from one again.
	if err := c.Retry(ctx, id); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"enqueued 0 ", "started 1 ", "returned 0 ", "started 1 ", "failed 1 ", "retrying 1 ",
		"started 2 ", "failed 2 ", "retrying 2 ", "started 3 ", "failed 3 ", "dead 3 ", "revived 0 ",
	}
	if got := n.timeline(id, next); !slices.Equal(got, want) {
		t.Errorf("after a retry by hand:\n%q\nwant\n%q", got, want)
	}
}

// timeline returns a line for each event of a job: its type, attempt and worker, and "next"
// where it has the next attempt's time. That must be the one given for its attempt.
func (n *node) timeline(id string, next map[int]api.Time) (lines []string) {
	n.t.Helper()
	for _, e := range answers[api.JobEvents](n, 200, "GET", "/jobs/"+id+"/events?consistency=strong", "").Events {
		var data struct {
			WorkerID      string   `json:"worker_id"`
			NextAttemptAt api.Time `json:"next_attempt_at"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			n.t.Fatal(err)
		}
		line := fmt.Sprintf("%s %d %s", e.Type, e.Attempt, data.WorkerID)
		if at := data.NextAttemptAt; at != "" {
			line += " next"
			if at != next[e.Attempt] {
				n.t.Errorf("%s: the next attempt is at %s, and the worker was told %s", line, at, next[e.Attempt])
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// TestJobEventsHaveTheNewestProgress reports progress twice: the timeline has the second report, with its time and, while
// the attempt runs, its document.
func TestJobEventsHaveTheNewestProgress(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	f := n.one(c, "mail")
	for _, percent := range []string{`{"percent":10}`, `{"percent":60}`} {
		_, err := c.Heartbeat(ctx, api.HeartbeatRequest{Jobs: map[string]*api.HeartbeatJob{
			f.JobID: {LeaseToken: f.LeaseToken, Progress: json.RawMessage(percent)},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	path := "/jobs/" + f.JobID + "/events?consistency=strong"
	events := answers[api.JobEvents](n, 200, "GET", path, "").Events
	if len(events) != 3 || events[2].Type != "progress" || string(events[2].Data) != `{"attempt":1,"progress":{"percent":60}}` {
		t.Fatalf("%+v", events)
	}
	at := events[2].At
	if err := c.Ack(ctx, f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	events = answers[api.JobEvents](n, 200, "GET", path, "").Events
	if len(events) != 4 {
		t.Fatalf("%+v", events)
	}
	equal(t, "the third event", events[2].Type, "progress")
	equal(t, "its time", events[2].At, at)
	equal(t, "the fourth event", events[3].Type, "completed")
}
