package view

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// TestQueueSettingsAreShown checks that a queue shows all its settings, and null for those it does not have.
func TestQueueSettingsAreShown(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	zero, many, fixed := int64(0), uint32(7), job.BackoffFixed
	h.commit(func(tx *state.Tx) {
		tx.PutQueue(tx.EnsureQueue("none"), evChanged)
		q := tx.EnsureQueue("all")
		q.RateLimit, q.RateWindowMs, q.MaxLength, q.Overflow = 5, 1000, 9, job.Overflow_OVERFLOW_DROP_OLDEST
		q.Retention = &job.Retention{CompletedMs: time.Hour.Milliseconds(), DeadMs: job.Forever}
		q.Defaults = &state.QueueDefaults{MaxAttempts: &many, Backoff: &fixed, BaseDelayMs: &zero}
		tx.PutQueue(q, evChanged)
	})
	h.settle()
	for name, want := range map[string]string{
		"none": `[null,null,null,"reject",null,null,"active"]`,
		"all": `[5,1000,9,"drop_oldest",{"completed":"1h0m0s","dead":"forever"},` +
			`{"max_retries":7,"retry_backoff":"fixed","retry_base_delay":"0s"},"active"]`,
	} {
		q, err := h.view.Queue(name)
		must(t, err)
		got, err := json.Marshal([]any{q.RateLimit, q.RateWindowMs, q.MaxLength, q.OnFull, q.Retention, q.Defaults, q.Status})
		must(t, err)
		if string(got) != want {
			t.Errorf("%s is shown as %s, want %s", name, got, want)
		}
	}
}

func TestQueueStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		paused, draining, deleting bool
		active                     int64
		want                       string
	}{
		{false, false, false, 1, api.QueueActive},
		{true, false, false, 1, api.QueuePaused},
		{true, true, false, 1, api.QueueDraining},
		{true, true, false, 0, api.QueueDrained},
		{true, true, true, 0, api.QueueDeleting},
	} {
		if got := queueStatus(&api.Queue{Paused: c.paused, Active: c.active}, c.draining, c.deleting); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestJobIDs(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("other", 2)
	h.enqueue("q", 5)
	h.settle()
	var all []job.ID // of q, newest first
	v := h.store.Snapshot()
	for j, err := range v.Jobs() {
		must(t, err)
		if j.Queue == "q" {
			all = append(all, job.ID(j.Id))
		}
	}
	numbers := map[job.ID]uint64{}
	for _, id := range all {
		j, err := v.Job(id)
		must(t, err)
		numbers[id] = j.Number
	}
	must(t, v.Close())
	slices.SortFunc(all, func(a, b job.ID) int { return int(numbers[b]) - int(numbers[a]) })
	for _, c := range []struct {
		states []job.State
		below  uint64
		limit  int
		want   []job.ID
	}{
		{[]job.State{job.Retrying, job.Pending}, 1 << 63, 100, all},
		{[]job.State{job.Pending}, numbers[all[1]], 100, all[2:]},
		{[]job.State{job.Pending}, 1 << 63, 2, all[:2]},
		{[]job.State{job.Active}, 1 << 63, 100, nil},
	} {
		got, err := h.view.JobIDs(t.Context(), "q", c.states, c.below, c.limit)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
